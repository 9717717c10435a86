"""Bounds of configuration values."""

from srl_train.errors import ConfigError

MOST_THREADS = 1024  # of torch: more than any machine has cores; far more of them crash it
MOST_MODELS = 1024
"""Upper bound of models, workers and loaded versions of a run."""
MOST_EPISODES = 100_000
"""Upper bound of the episodes of a round, a dataset or an evaluation, which are all in memory."""
MOST_PASSES = 10_000
"""Upper bound of passes over the same samples."""
MOST_TOKENS = 1_000_000
"""Upper bound of the tokens of an answer: the longest context of any model."""
MOST_RANK = 65_536
"""Upper bound of the rank of adapters: the widest layer of any model."""


def within(name: str, value: float, low: float, high: float) -> None:
    """Raise ConfigError unless low <= value <= high."""
    if not low <= value <= high:
        raise ConfigError(f"{name} is {value}: give {low} to {high}")
