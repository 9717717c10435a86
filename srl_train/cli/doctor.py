"""`srl doctor`: installed and missing extras, with install commands, and devices."""

from __future__ import annotations

import argparse
import platform
from importlib import metadata

from packaging.requirements import Requirement

from srl_envs.loading import install_line, pip_line
from srl_train.cli.notices import tell
from srl_train.errors import ConfigError

_SEPARATE = {
    "vllm": "docs/agents/serving.md",
    "verl": "docs/verl_areal.md",
    "areal": "docs/verl_areal.md",
    "openenv": "docs/environments/openenv.md",
    "verifiers": "docs/environments/verifiers.md",
}
"""Extras that conflict with [train], and the page about each."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "extras",
        nargs="*",
        metavar="EXTRA",
        help="extra that is required for exit code 0, such as train or vllm (default: train)",
    )


def run(args: argparse.Namespace) -> int:
    """Print the extras and devices; return 0 if base package and given extras are installed, or 1.

    Raises ConfigError for an unknown extra.
    """
    try:
        package = metadata.distribution("core-srl")
    except metadata.PackageNotFoundError:
        tell("core-srl runs from a source folder and is not installed; run: pip install -e .")
        return 1
    extras = sorted({*(package.metadata.get_all("Provides-Extra") or ())} - {"dev"})
    for extra in args.extras:
        if extra not in extras:
            raise ConfigError(f"EXTRA must be one of {', '.join(extras)}, got {extra!r}")
    system = f"{platform.system()} {platform.machine()}"
    tell(f"core-srl {package.version}, Python {platform.python_version()}, {system}\n")
    base, broken = _lacking(package, ""), False
    for extra in ("", *extras):
        wrong = [fault for fault in _lacking(package, extra) if not extra or fault not in base]
        if not wrong:
            tell(f"  {extra or 'base':<13} ok")
            continue
        broken |= extra in ("", *(args.extras or ["train"]))
        remedy = pip_line(extra) if extra else "pip install core-srl"
        if extra in _SEPARATE:
            remedy += f" in a separate environment ({_SEPARATE[extra]})"
        tell(f"  {extra or 'base':<13} {'; '.join(wrong)}: {remedy}")
    tell("")
    for name, device in accelerators().items():
        tell(f"  {name:<13} {device}")
    return int(broken)


def _lacking(package: metadata.Distribution, extra: str) -> list[str]:
    """Return a text for each required package of an extra that is missing or outdated."""
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
    """Return a mapping from name to description of the devices that torch can use."""
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
