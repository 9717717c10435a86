"""Errors of policies, rollouts and evaluation."""


class BackendError(RuntimeError):
    """A language-model backend could not answer: its episode is spoilt, the run goes on."""


class ServerUnavailable(BackendError):
    """A model server cannot be reached or is going down: another one may answer."""


class EpisodeTimeout(TimeoutError):
    """Games were not over in the time that they had; they were stopped."""


class ServingError(RuntimeError):
    """Model servers cannot be set up or started as asked, or do not stay up."""


class PlacementError(ServingError):
    """The models that are to be served do not fit the GPUs, memory or ports there are."""


class EpisodeError(ValueError):
    """A recorded episode cannot be read: wrong schema version or a damaged line."""


class ResultsError(ValueError):
    """Results of a cross-play cannot be read: wrong schema version or a damaged file."""


class RolloutError(RuntimeError):
    """More episodes failed than the caller allowed."""


class PolicyError(ValueError):
    """A policy was asked for that does not exist, or that cannot play the game."""
