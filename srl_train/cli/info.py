"""`srl info`: lists of environments and of the names of settings that select a part."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from srl_envs.loading import missing, pip_line
from srl_train.cli.notices import tell


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""


def run(args: argparse.Namespace) -> int:
    """Print environments and, if `train` is installed, names that settings allow; return 0."""
    from srl_agents.llm.backends.registry import BACKENDS
    from srl_envs import registry

    environments = {name: registry.entry(name).summary for name in registry.names()}
    for name in environments:
        if lacking := missing(registry.entry(name).extras):
            environments[name] += f" (not ready: {pip_line(*lacking)})"
    print_table("environments", environments)
    if missing(("train",)):
        tell(f"settings of training: not ready: {pip_line('train')}")
        return 0
    from srl_train.config.learning.updates import STRATEGY_NAMES
    from srl_train.credit import CREDIT_SCHEMES
    from srl_train.learners import ALGORITHMS
    from srl_train.modes import MODES

    tell(f"update strategies (updates.strategy): {', '.join(STRATEGY_NAMES)}")
    tell(f"modes (mode.name): {', '.join(MODES)}")
    tell(f"credit schemes (credit.name): {', '.join(CREDIT_SCHEMES)}")
    tell(f"algorithms (algorithm.name): {', '.join(ALGORITHMS)}")
    tell(f"backends of language models: {', '.join(BACKENDS)}")
    return 0


def print_table(title: str, rows: Mapping[str, str]) -> None:
    """Print `title` and a colon, then the names and values of `rows` in two columns."""
    width = max(map(len, rows), default=0)
    tell(f"{title}:")
    for name, value in rows.items():
        tell(f"  {name:<{width}}  {value}".rstrip())
