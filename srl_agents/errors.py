"""Errors of policies, rollouts and evaluation."""


class BackendError(RuntimeError):
    """A language-model backend failed; its episode is lost, the run continues."""


class ServerUnavailable(BackendError):
    """A model server cannot be reached; another server may answer."""


class EpisodeTimeout(TimeoutError):
    """Episodes took longer than allowed and were stopped."""


class ServingError(RuntimeError):
    """Model servers cannot be started, or ended early."""


class PlacementError(ServingError):
    """Models to serve do not fit the GPUs, memory or ports."""


class EpisodeError(ValueError):
    """A recorded episode cannot be read: wrong schema version or a damaged line."""


class RolloutError(RuntimeError):
    """More episodes failed than the caller allowed."""


class PolicyError(ValueError):
    """A policy does not exist, or cannot play the environment."""
