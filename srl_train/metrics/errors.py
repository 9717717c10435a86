"""Errors of metrics files and reports."""


class RunFolderError(ValueError):
    """Run folder that is missing, damaged or not writable."""


class MetricsError(ValueError):
    """Metrics row that cannot be written or read."""


class TrackerError(RuntimeError):
    """Experiment tracker that cannot be opened."""
