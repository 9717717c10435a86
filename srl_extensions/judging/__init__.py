"""Evaluation of policies and runs: scenarios, cross-play, ratings, exploitability, comparisons."""
