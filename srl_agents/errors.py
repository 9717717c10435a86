"""Exceptions of policies, rollouts and evaluation."""


class BackendError(RuntimeError):
    """Failure of a language-model backend, which ends only the episode if one is played."""


class ServerUnavailable(BackendError):
    """Failure to reach a model server; another server may answer."""


class EpisodeTimeout(TimeoutError):
    """Timeout of a rollout, whose unfinished episodes were stopped."""


class ServingError(RuntimeError):
    """Failure to start or to use model servers."""


class PlacementError(ServingError):
    """GPUs that do not exist, or fewer GPUs than one model server needs."""


class EpisodeError(ValueError):
    """Recorded episode that cannot be read or replayed."""


class RolloutError(RuntimeError):
    """Failure of all episodes, or of a required one."""


class PolicyError(ValueError):
    """Unknown policy, or one that cannot play the environment or use its settings."""
