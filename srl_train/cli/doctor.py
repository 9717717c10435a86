"""`srl doctor`: installed extras and devices, and the install commands of missing extras."""

from __future__ import annotations

import argparse
import platform
from importlib import metadata

from packaging.requirements import Requirement

from srl_envs.loading import install_line, pip_line
from srl_train.cli.notices import tell
from srl_train.errors import ConfigError

APART = {
    "vllm": "docs/agents/serving.md",
    "verl": "docs/verl_areal.md",
    "areal": "docs/verl_areal.md",
    "openenv": "docs/environments/openenv.md",
    "verifiers": "docs/environments/verifiers.md",
}
"""Extras that cannot share an environment with [train], and the page that explains them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "extras",
        nargs="*",
        metavar="EXTRA",
        help="what has to be there for status 0, such as train or vllm (default: train)",
    )


def run(args: argparse.Namespace) -> int:
    """Print the extras; return 0 if the base and the given extras are installed, else 1.

    Raises ConfigError for an unknown extra.
    """
    try:
        package = metadata.distribution("core-srl")
    except metadata.PackageNotFoundError:
        tell("core-srl is not installed, it runs from a source folder: pip install -e .")
        return 1
    extras = sorted({*(package.metadata.get_all("Provides-Extra") or ())} - {"dev"})
    for extra in args.extras:
        if extra not in extras:
            raise ConfigError(f"unknown extra {extra!r}; allowed: {', '.join(extras)}")
    system = f"{platform.system()} {platform.machine()}"
    tell(f"core-srl {package.version}, Python {platform.python_version()}, {system}\n")
    base, broken = _lacking(package, ""), False
    for extra in ("", *extras):
        wrong = [one for one in _lacking(package, extra) if not extra or one not in base]
        if not wrong:
            tell(f"  {extra or 'base':<13} ok")
            continue
        broken |= extra in ("", *(args.extras or ["train"]))
        remedy = pip_line(extra) if extra else "pip install core-srl"
        if extra in APART:
            remedy += f" in an environment of its own ({APART[extra]})"
        tell(f"  {extra or 'base':<13} {'; '.join(wrong)}: {remedy}")
    tell("")
    for name, device in accelerators().items():
        tell(f"  {name:<13} {device}")
    return int(broken)


def _lacking(package: metadata.Distribution, extra: str) -> list[str]:
    """Return the packages of an extra that are missing or have another version."""
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
    return found
