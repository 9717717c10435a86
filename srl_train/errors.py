"""Errors of configurations, training, checkpoints and data."""


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
