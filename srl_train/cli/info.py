"""`srl info`: lists of environments and of the names of settings that select a part."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from srl_envs.loading import missing, pip_line
from srl_train.cli.notices import tell

STRATEGIES = {
    "synchronized": "at each optimizer step, all models apply the mean gradient",
    "asynchronous": "each model updates when its own sample budget is full",
    "federated": "models learn independently and periodically average their weights",
    "selective": "only the best models of a round update",
}
"""Update strategy to its description. The strategies themselves would import torch."""
MODES = {
    "cooperative": "each reward is blended with the mean reward of the team",
    "competitive": "each agent receives a bonus for its rank in the episode",
    "mixed": "both, weighted by the cooperation rate of earlier rounds",
    "hierarchical": "a leader acts first and receives the mean reward of its team",
    "zero_sum": "the team's mean reward minus the mean reward of the other teams",
    "raw": "the environment's own rewards",
}
"""Reward mode to its description."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""


def run(args: argparse.Namespace) -> int:
    """Print the lists, with the install command of each missing extra; return 0."""
    from srl_agents.llm.backends.registry import BACKENDS
    from srl_envs import registry
    from srl_train.credit import CREDIT_SCHEMES
    from srl_train.learners import ALGORITHMS

    environments = {name: registry.entry(name).summary for name in registry.names()}
    for name in environments:
        if lacking := missing(registry.entry(name).extras):
            environments[name] += f" (not ready: {pip_line(*lacking)})"
    print_table("environments", environments)
    print_table("update strategies (updates.strategy)", STRATEGIES)
    print_table("modes (mode.name)", MODES)
    tell(f"credit schemes (credit.name): {', '.join(CREDIT_SCHEMES)}")
    tell(f"algorithms (algorithm.name): {', '.join(ALGORITHMS)}")
    tell(f"backends of language models: {', '.join(BACKENDS)}")
    return 0


def print_table(title: str, rows: Mapping[str, str]) -> None:
    """Print a title and the entries of `rows` as two columns."""
    width = max(map(len, rows), default=0)
    tell(f"{title}:")
    for name, value in rows.items():
        tell(f"  {name:<{width}}  {value}".rstrip())
