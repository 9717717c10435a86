"""`srl info`: versions, environments, strategies, and this machine."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Mapping

from srl_envs.loading import install_line, missing, pip_line
from srl_train.cli.notices import tell
from srl_train.run_files import installed

PACKAGES = (
    "core-srl", "numpy", "gymnasium", "pettingzoo", "torch", "transformers", "trl", "peft",
    "accelerate", "datasets", "safetensors", "matplotlib",
)  # fmt: skip
STRATEGIES = {
    "synchronized": "every optimizer step, all models apply the mean gradient",
    "asynchronous": "each model updates when its own sample budget is full; staleness is bounded",
    "federated": "models learn apart, and take the mean of their weights, weighted by samples",
    "selective": "only the best share of the models updates; patience lets the others in",
    "population": "clearly worse models copy better ones, with other hyperparameters",
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
    """Add the command's arguments."""
    parser.add_argument(
        "--devices", action="store_true", help="look for accelerators too (imports torch: seconds)"
    )


def run(args: argparse.Namespace) -> int:
    """Print the information."""
    from srl_envs import registry, scenarios

    print_table("versions", {"python": platform.python_version()} | versions())
    games = {}
    for name in registry.names():
        entry = registry.entry(name)
        lacking = missing(entry.extras)
        games[name] = entry.summary + (f" (not ready: {pip_line(*lacking)})" if lacking else "")
    print_table("environments", games)
    kept = {name: scenarios.names(name, holdout=True) for name in scenarios.environments()}
    counts = {
        name: f"{len(scenarios.names(name))}, {len(holdout)} of them held out from training"
        for name, holdout in kept.items()
    }
    print_table("scenarios (srl eval --list)", counts)
    print_table("update strategies (updates.strategy)", STRATEGIES)
    print_table("modes (mode.name)", MODES)
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    machine = {
        "system": f"{platform.system()} {platform.machine()}",
        "processors": f"{usable} usable of {os.cpu_count()}",
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "not set"),
    }
    if args.devices:
        machine |= accelerators()
    print_table("machine", machine)
    return 0


def versions() -> dict[str, str]:
    """Return the installed versions by package, without importing a package."""
    return {name: installed(name) or "not installed" for name in PACKAGES}


def accelerators() -> dict[str, str]:
    """Return the devices that torch can use. Imports torch."""
    try:
        import torch
    except ImportError as error:
        return {"accelerators": f"unknown: {install_line(error, 'the list') or error}"}
    found = {"torch threads": str(torch.get_num_threads())}
    for index in range(torch.cuda.device_count()):
        card = torch.cuda.get_device_properties(index)
        found[f"cuda:{index}"] = f"{card.name}, {card.total_memory / 2**30:.1f} GiB"
    if torch.backends.mps.is_available():
        found["mps"] = "Apple GPU"
    if len(found) == 1:
        found["accelerators"] = "none"
    return found


def print_table(title: str, rows: Mapping[str, str]) -> None:
    """Print two columns."""
    width = max(map(len, rows), default=0)
    tell(f"{title}:")
    for name, value in rows.items():
        tell(f"  {name:<{width}}  {value}".rstrip())
