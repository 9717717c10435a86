"""Report, comparison, replay and live page of runs."""
