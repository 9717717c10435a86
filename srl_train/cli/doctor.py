"""`srl doctor`: what is installed, which device there is, what is missing and what installs it."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Iterable
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from srl_envs.loading import pip_line
from srl_train.cli.info import accelerators
from srl_train.cli.notices import tell
from srl_train.errors import ConfigError

APART = {
    "vllm": "docs/agents/serving.md",
    "verl": "docs/verl_areal.md",
    "areal": "docs/verl_areal.md",
    "openenv": "docs/environments/openenv.md",
    "verifiers": "docs/environments/verifiers.md",
}
"""Extras whose packages cannot share an environment with [train] -> the page that says how."""
FOR_DEVELOPERS = "dev"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument(
        "extras", nargs="*", metavar="EXTRA",
        help="what has to be there for status 0, such as train or vllm (default: train)",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Print it; 0 where the base and the extras asked for are there in versions that fit, else 1.

    Raises ConfigError for an extra that there is not.
    """
    try:
        package = metadata.distribution("core-srl")
    except metadata.PackageNotFoundError:
        tell("core-srl is not installed, it runs from a source folder: pip install -e .")
        return 1
    wanted = _wanted(package)
    for extra in args.extras:
        if extra not in wanted:
            raise ConfigError(f"no extra {extra!r}: there are {', '.join(sorted(wanted))}")
    asked = {"base", *(args.extras or ["train"])}
    system = f"{platform.system()} {platform.machine()}"
    tell(f"core-srl {package.version}, Python {platform.python_version()}, {system}\n")
    broken = False
    for extra, requirements in wanted.items():
        there, wrong = _found(requirements)
        if wrong:
            broken |= extra in asked
            tell(f"  {extra:<13} {'; '.join(wrong)}: {_remedy(extra)}")
        else:
            tell(f"  {extra:<13} ok: {', '.join(there)}")
    tell("")
    for name, what in accelerators().items():
        tell(f"  {name:<13} {what}")
    return int(broken)


def _wanted(package: metadata.Distribution) -> dict[str, list[Requirement]]:
    """Extra, or 'base' -> what it requires here."""
    requirements = [Requirement(line) for line in package.requires or ()]
    extras = sorted({*(package.metadata.get_all("Provides-Extra") or ())} - {FOR_DEVELOPERS})
    base = [one for one in requirements if _holds(one, "")]
    added = {name: [one for one in requirements if _holds(one, name)] for name in extras}
    return {"base": base} | {
        name: [one for one in ones if one not in base] for name, ones in added.items()
    }


def _holds(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _found(requirements: Iterable[Requirement]) -> tuple[list[str], list[str]]:
    """What is there, with its version, and what is missing or does not fit."""
    there, wrong = [], []
    for one in requirements:
        name = canonicalize_name(one.name)
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            wrong.append(f"{name} is missing")
            continue
        if one.specifier.contains(version, prereleases=True):
            there.append(f"{name} {version}")
        else:
            wrong.append(f"{name} is {version}, wanted is {one.specifier}")
    return there, wrong


def _remedy(extra: str) -> str:
    if extra == "base":
        return "pip install core-srl"
    apart = f" in an environment of its own ({APART[extra]})" if extra in APART else ""
    return pip_line(extra) + apart
