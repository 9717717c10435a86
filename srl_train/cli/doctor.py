"""`srl doctor`: installed and missing extras, with install commands, and devices."""

from __future__ import annotations

import argparse
import platform
from importlib import metadata

from packaging.requirements import Requirement

from srl_envs.loading import install_line, pip_line
from srl_train.cli.notices import tell

_SEPARATE = ("vllm", "verl", "areal", "openenv", "verifiers")
"""Extras that conflict with [train]."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""


def run(args: argparse.Namespace) -> int:
    """Print extras, with install commands for missing ones, and devices.

    Returns 0 if core-srl and all requirements of its extra `train` are installed, else 1.
    """
    try:
        package = metadata.distribution("core-srl")
    except metadata.PackageNotFoundError:
        tell("core-srl runs from a source folder and is not installed; run: pip install -e .")
        return 1
    extras = sorted({*(package.metadata.get_all("Provides-Extra") or ())} - {"dev"})
    system = f"{platform.system()} {platform.machine()}"
    tell(f"core-srl {package.version}, Python {platform.python_version()}, {system}\n")
    for extra in extras:
        remedy = pip_line(extra) + " in a separate environment" * (extra in _SEPARATE)
        wrong = "; ".join(_lacking(package, extra))
        tell(f"  {extra:<13} {f'{wrong}: {remedy}' if wrong else 'ok'}")
    tell("")
    for name, device in accelerators().items():
        tell(f"  {name:<13} {device}")
    return int(bool(_lacking(package, "train")))


def _lacking(package: metadata.Distribution, extra: str) -> list[str]:
    wrong = []
    for one in map(Requirement, package.requires or ()):
        if one.marker is not None and not one.marker.evaluate({"extra": extra}):
            continue
        try:
            version = metadata.version(one.name)
        except metadata.PackageNotFoundError:
            wrong.append(f"{one.name} is missing")
            continue
        if not one.specifier.contains(version, prereleases=True):
            wrong.append(f"{one.name} is {version}, must be {one.specifier}")
    return wrong


def accelerators() -> dict[str, str]:
    """Return "cpu", "cuda:0" or "mps" -> description; without torch, "accelerators" -> reason."""
    try:
        import torch
    except ImportError as error:
        return {"accelerators": f"unknown: {install_line(error, 'the list') or error}"}
    found = {"cpu": f"{torch.get_num_threads()} torch threads"}
    for index in range(torch.cuda.device_count()):
        card = torch.cuda.get_device_properties(index)
        found[f"cuda:{index}"] = f"{card.name}, {card.total_memory / 2**30:.1f} GiB"
    if torch.backends.mps.is_available():
        found["mps"] = "Apple GPU"
    return found
