"""Errors of metrics files and reports."""


class RunFolderError(ValueError):
    """A run's folder lacks or garbles what was asked of it."""


class MetricsError(ValueError):
    """A row of metrics cannot be written or read."""


class PlotsError(ImportError):
    """matplotlib, the extra `plots`, is not installed."""


class TrackerError(RuntimeError):
    """A tracker of experiments cannot be opened."""
