"""`mrlm info`: this machine, the algorithms and the environments."""

from __future__ import annotations

import argparse
import os
import platform

from mrlm.environments.catalogue import ENVIRONMENTS
from srl_train.cli.info import accelerators, print_table, versions

ALGORITHMS = {
    "ppo": "on-policy, clipped surrogate with a critic",
    "grpo": "on-policy, answers compared with others from the same start",
    "dpo": "offline, from pairs of a better and a worse answer",
    "sft": "supervised, imitates answers and predicts what follows them",
}
"""Name -> what it is."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None but the common ones."""


def run(args: argparse.Namespace) -> int:
    """Print it."""
    system = {"system": f"{platform.system()} {platform.machine()}", "cores": str(os.cpu_count())}
    print_table("system", {**system, "python": platform.python_version()} | accelerators())
    print_table("versions", versions())
    print_table("algorithms", ALGORITHMS)
    print_table("environments", {name: entry[1] for name, entry in ENVIRONMENTS.items()})
    return 0
