"""Records of a run: rows of metrics, summaries, and what they are handed to."""
