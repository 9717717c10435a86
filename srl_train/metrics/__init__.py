"""Metrics of a run: rows in files, progress lines and warnings. Imports no torch."""

from srl_train.metrics.progress import Progress
from srl_train.metrics.sinks import JsonlSink, Sink, read_metrics

__all__ = ["JsonlSink", "Progress", "Sink", "read_metrics"]
