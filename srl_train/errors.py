"""Errors of configurations, training, checkpoints, data, metrics files and reports."""


class ConfigError(ValueError):
    """Setting or argument that is not allowed. The message names the setting."""


class UpdateError(ValueError):
    """Update strategy that cannot be applied to its models."""


class CheckpointError(RuntimeError):
    """Checkpoint that cannot be written, or that is damaged."""


class CheckpointNotFound(CheckpointError, FileNotFoundError):
    """Checkpoint that does not exist. The message lists the existing checkpoints."""


class DataError(ValueError):
    """Data file that cannot be used for training. The message names the file and the line."""


class TrainingError(RuntimeError):
    """Run that cannot continue."""


class RunFolderError(ValueError):
    """Run folder that is missing, damaged or not writable."""


class MetricsError(ValueError):
    """Metrics row that cannot be written or read."""


class TrackerError(RuntimeError):
    """Experiment tracker that cannot be opened."""
