"""Upper bounds of configuration values."""

MOST_THREADS = 1024
"""CPU threads of torch. Far more threads than cores crash torch."""
MOST_MODELS = 1024
"""Models, worker processes and loaded versions of a run."""
MOST_EPISODES = 100_000
"""Episodes of a round, a dataset or an evaluation. All of them are in memory."""
MOST_PASSES = 10_000
"""Passes over the same samples."""
MOST_TOKENS = 1_000_000
"""Tokens of an answer, the longest context of any model."""
MOST_RANK = 65_536
"""Rank of LoRA adapters, the widest layer of any model."""
