"""`srl info`: environments, update strategies and modes."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from srl_envs.loading import missing, pip_line
from srl_train.cli.notices import tell

STRATEGIES = {
    "synchronized": "every optimizer step, all models apply the mean gradient",
    "asynchronous": "each model updates when its own sample budget is full; staleness is bounded",
    "federated": "models learn independently, then take the mean of their weights",
    "selective": "only the best share of the models updates; patience lets the others in",
}
"""Update strategies. A test compares the names: the strategies themselves require torch."""
MODES = {
    "cooperative": "each reward is blended with its team's mean",
    "competitive": "each reward gets a bonus for its rank",
    "mixed": "both, with a balance that moves",
    "hierarchical": "a leader speaks first and is paid the team's mean",
    "zero_sum": "the own team's mean less its rivals'",
    "raw": "the environment's own rewards",
}
"""Modes. A test compares the names."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""


def run(args: argparse.Namespace) -> int:
    """Print the tables."""
    from srl_envs import registry

    environments = {}
    for name in registry.names():
        entry = registry.entry(name)
        lacking = missing(entry.extras)
        environments[name] = entry.summary
        if lacking:
            environments[name] += f" (not ready: {pip_line(*lacking)})"
    print_table("environments", environments)
    print_table("update strategies (updates.strategy)", STRATEGIES)
    print_table("modes (mode.name)", MODES)
    return 0


def print_table(title: str, rows: Mapping[str, str]) -> None:
    """Print two columns."""
    width = max(map(len, rows), default=0)
    tell(f"{title}:")
    for name, value in rows.items():
        tell(f"  {name:<{width}}  {value}".rstrip())
