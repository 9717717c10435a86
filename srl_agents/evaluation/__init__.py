"""Evaluation: confidence intervals, Nash averaging, replays and the matrix-game benchmark."""
