"""`srl info`: versions, environments, strategies, this machine, and verified checkpoints."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from srl_envs.loading import install_line, missing, pip_line
from srl_train.cli.notices import tell
from srl_train.engine.run_files import installed
from srl_train.errors import CheckpointError

if TYPE_CHECKING:
    from srl_envs.registry import Entry

PACKAGES = (
    "core-srl", "numpy", "gymnasium", "pettingzoo", "torch", "transformers", "trl", "peft",
    "accelerate", "datasets", "safetensors", "matplotlib",
)  # fmt: skip
STRATEGIES = {
    "synchronized": "every optimizer step, all models apply the mean gradient",
    "asynchronous": "each model updates when its own sample budget is full; staleness is bounded",
    "federated": "models learn apart, and take the mean of their weights, weighted by samples",
    "selective": "only the best share of the models updates; patience lets the others in",
    "population": "clearly worse models go on from better ones, with other hyper-parameters",
}
"""Update strategy -> meaning. A copy of the names in srl_train.config.run, held equal by a test:
the strategies themselves need torch, and `srl info` answers without it."""
MODES = {
    "cooperative": "each reward is blended with its team's mean",
    "competitive": "each reward gets a bonus for its rank",
    "mixed": "both, with a balance that moves",
    "hierarchical": "a leader speaks first and is paid the team's mean",
    "zero_sum": "the own team's mean less its rivals'",
    "raw": "the environment's own rewards",
}
"""Mode -> meaning; held equal to srl_train.config.run by the same test."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument(
        "--devices", action="store_true", help="look for accelerators too (imports torch: seconds)"
    )
    parser.add_argument(
        "--verify", type=Path, metavar="FOLDER",
        help="only compare every byte of a checkpoint, or of all those of a run, with what was "
        "written; loading one compares the sizes of weights",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Print it."""
    if args.verify is not None:
        return _verify(args.verify)
    from srl_envs import registry, scenarios

    print_table("versions", {"python": platform.python_version()} | versions())
    games = {name: _readiness(registry.entry(name)) for name in registry.names()}
    print_table("environments", games)
    kept = {name: scenarios.names(name, holdout=True) for name in scenarios.environments()}
    counts = {
        name: f"{len(scenarios.names(name))}, {len(holdout)} of them held out from training"
        for name, holdout in kept.items()
    }
    print_table("scenarios (srl eval --list)", counts)
    print_table("update strategies (updates.strategy)", STRATEGIES)
    print_table("modes (mode.name)", MODES)
    machine = {
        "system": f"{platform.system()} {platform.machine()}",
        "processors": f"{_usable_processors()} usable of {os.cpu_count()}",
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "not set"),
    }
    if args.devices:
        machine |= accelerators()
    print_table("machine", machine)
    return 0


def _readiness(environment: Entry) -> str:
    lacking = missing(environment.extras)
    needed = f" (not ready: {pip_line(*lacking)})" if lacking else ""
    return f"{environment.summary}{needed}"


def _verify(folder: Path) -> int:
    from srl_train.checkpoints import checkpoint  # only here: it takes torch

    saved = sorted((folder / "checkpoints").glob("[!.]*")) or [folder]
    damaged = 0
    for one in saved:
        try:
            checkpoint.check(one, every_byte=True)
            tell(f"whole: {one}")
        except CheckpointError as error:
            damaged += 1
            tell(f"damaged: {error}")
    return 2 if damaged else 0


def versions() -> dict[str, str]:
    """Package -> installed version, or how it is missing; nothing is imported for it."""
    return {name: installed(name) or "not installed" for name in PACKAGES}


def accelerators() -> dict[str, str]:
    """What torch can compute on. Imports torch."""
    try:
        import torch
    except ImportError as error:
        return {"accelerators": f"unknown: {install_line(error, 'telling them') or error}"}
    found = {"torch threads": str(torch.get_num_threads())}
    for index in range(torch.cuda.device_count()):
        card = torch.cuda.get_device_properties(index)
        found[f"cuda:{index}"] = f"{card.name}, {card.total_memory / 2**30:.1f} GiB"
    if torch.backends.mps.is_available():
        found["mps"] = "Apple GPU"
    if len(found) == 1:
        found["accelerators"] = "none"
    return found


def _usable_processors() -> int:
    if hasattr(os, "sched_getaffinity"):  # Linux: what this process may use
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def print_table(title: str, rows: Mapping[str, str]) -> None:
    """Names with what they stand for, in two columns."""
    width = max(map(len, rows), default=0)
    tell(f"{title}:")
    for name, value in rows.items():
        tell(f"  {name:<{width}}  {value}".rstrip())
