"""Evaluation: scenarios, pass@k, confidence intervals, replays."""
