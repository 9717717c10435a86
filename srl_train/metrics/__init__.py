"""Metrics of a run: rows on disk, live progress, plots and reports. No torch."""

from srl_train.metrics.progress import Progress
from srl_train.metrics.sinks import JsonlSink, Sink, Tee, Watcher, read_metrics

__all__ = ["JsonlSink", "Progress", "Sink", "Tee", "Watcher", "read_metrics"]
