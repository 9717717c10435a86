"""Errors of policies, rollouts and evaluation."""


class BackendError(RuntimeError):
    """A language-model backend could not answer: its episode is spoilt, the run goes on."""


class EpisodeError(ValueError):
    """A recorded episode cannot be read: wrong schema version or a damaged line."""


class RolloutError(RuntimeError):
    """More episodes failed than the caller allowed."""


class PolicyError(ValueError):
    """A policy was asked for that does not exist, or that cannot play the game."""
