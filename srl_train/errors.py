"""Errors of configurations, training, checkpoints, data, metrics files and reports."""


class ConfigError(ValueError):
    """Setting or argument that is not allowed. The message names the setting."""


class UpdateError(ValueError):
    """Update that cannot be applied, such as to models of different shapes."""


class CheckpointError(RuntimeError):
    """Checkpoint that cannot be written, is damaged, or does not fit the run."""


class CheckpointNotFound(CheckpointError, FileNotFoundError):
    """Checkpoint that does not exist."""


class DataError(ValueError):
    """Training data that cannot be read or used; empty data included."""


class TrainingError(RuntimeError):
    """Run that cannot continue, such as after a loss that is not finite."""


class RunFolderError(ValueError):
    """Run folder that is missing, damaged, not writable, or cannot be compared with others."""


class MetricsError(ValueError):
    """Metrics row or file that cannot be written or read."""


class TrackerError(RuntimeError):
    """Experiment tracker, or file of its run ids, that cannot be used."""
