"""Errors of configuration, training, checkpoints and data."""


class ConfigError(ValueError):
    """A setting of a run is outside what is allowed."""


class UpdateError(ValueError):
    """An update strategy was asked for something its models do not allow."""


class CheckpointError(RuntimeError):
    """A checkpoint cannot be written, or is damaged and must not be trusted."""


class CheckpointNotFound(CheckpointError, FileNotFoundError):
    """There is no checkpoint of that name; the message names those there are."""


class DataError(ValueError):
    """A file cannot be learned from; the message names it and the line."""


class TrainingError(RuntimeError):
    """A run cannot go on."""
