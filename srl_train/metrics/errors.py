"""Errors of metrics files and reports."""


class RunFolderError(ValueError):
    """Folder of a run that is missing, damaged or not writable."""


class MetricsError(ValueError):
    """Row of metrics that cannot be written or read."""


class TrackerError(RuntimeError):
    """Tracker of experiments that cannot be opened."""
