"""Exceptions of policies, rollouts and evaluation."""


class BackendError(RuntimeError):
    """Failure of a language-model backend: the episode fails, the run continues."""


class ServerUnavailable(BackendError):
    """Failure to reach a model server; another server may answer."""


class EpisodeTimeout(TimeoutError):
    """Episodes that took longer than the timeout and were stopped."""


class ServingError(RuntimeError):
    """Failure to start model servers, or their unexpected end."""


class PlacementError(ServingError):
    """Models that do not fit the available GPUs, memory or ports."""


class EpisodeError(ValueError):
    """Recorded episode with a wrong schema version, or a damaged line."""


class RolloutError(RuntimeError):
    """More failed episodes than the caller allows."""


class PolicyError(ValueError):
    """Unknown policy, or a policy that cannot play the environment."""
