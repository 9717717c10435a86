"""The general suite: learners in all 2x2 ordinal games and in zero-sum games."""
