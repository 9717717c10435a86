"""What a run measured: rows on disk, the live display, plots and the report. No torch in here."""

from srl_train.metrics.progress import Progress
from srl_train.metrics.sinks import JsonlSink, Sink, Tee, read_metrics

__all__ = ["JsonlSink", "Progress", "Sink", "Tee", "read_metrics"]
