"""How a result is kept: a JSON record with its circumstances, and a block of the results page.

A block lies between `<!-- NAME: begin -->` and `<!-- NAME: end -->` and is replaced whole.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from srl_train.run_files import write_whole

ROOT = Path(__file__).parents[1]
CONFIGS = ROOT / "examples" / "configs"
PACKAGES = ("torch", "transformers", "trl", "peft", "numpy", "pettingzoo")
ACCELERATORS = ("/dev/nvidia0", "/dev/kfd")
CHANGES = "+changes"
# What the numbers come from: results that were pasted since do not count as a change.
SOURCES = ("srl_envs", "srl_agents", "srl_train", "benchmarks/*.py", "examples", "pyproject.toml")


@dataclass(frozen=True)
class Check:
    """One claim, and whether it was seen to be so."""

    claim: str
    held: bool
    seen: str
    """The numbers it was judged by."""

    def __str__(self) -> str:
        return f"{'held' if self.held else 'NOT HELD'}: {self.claim} ({self.seen})"


def parser(docstring: str | None) -> argparse.ArgumentParser:
    """The parser of a command whose module says this, with options for where the result goes beside
    standard output."""
    made = argparse.ArgumentParser(_command(), description=(docstring or "").partition("\n")[0])
    # Refused before anything is measured.
    kept: dict[str, Any] = {"type": Path, "metavar": "FILE", "action": _Recording}
    made.add_argument("--json", **kept, help="also write the record there")
    made.add_argument(
        "--docs", **kept, help="also put the tables into this file, between the command's markers"
    )
    return made


class _Recording(argparse.Action):
    """A file to record in; refused where the measured sources differ from their commit."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        if _commit().endswith(CHANGES):
            parser.error(
                f"{option_string}: the sources differ from their commit, and a record would name a "
                "commit that gives other numbers: commit them, or leave the option out"
            )
        setattr(namespace, self.dest, values)


def keep(
    name: str,
    result: Mapping[str, Any],
    markdown: str,
    asked: argparse.Namespace,
    checks: Sequence[Check] = (),
) -> int:
    """Print the tables and the checks, and write what `--json` and `--docs` ask for; the exit code,
    1 where a check did not hold.

    Raises RuntimeError for a record of sources that were changed while they were measured.
    """
    if checks:
        markdown += "\n\n" + "\n".join(f"- {check}" for check in checks)
    print(markdown)
    found = circumstances()
    if found["commit"].endswith(CHANGES) and (asked.json or asked.docs):
        raise RuntimeError("the sources changed while they were measured: nothing was recorded")
    if asked.json is not None:
        record = {"benchmark": name, "circumstances": found, "result": dict(result)}
        write_whole(asked.json, json.dumps(record, indent=1) + "\n")
    if asked.docs is not None:
        paste(asked.docs, name, f"{in_words(found)}\n\n{markdown.strip()}")
    return int(not all(check.held for check in checks))


def _command() -> str:
    """'python -m benchmarks.training' and the like: what was started."""
    module = getattr(sys.modules["__main__"], "__spec__", None)
    name = module.name.removesuffix(".__main__") if module is not None else sys.argv[0]
    return f"python -m {name}"


def circumstances() -> dict[str, Any]:
    """The command, the commit, the machine and the versions."""
    return {
        "command": " ".join([_command(), *map(shlex.quote, sys.argv[1:])]),
        "commit": _commit(),
        "machine": machine(),
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "versions": {package: metadata.version(package) for package in PACKAGES},
    }


def machine() -> str:
    """'2 CPU cores, no accelerator' and the like: what this process may use."""
    allowed = hasattr(os, "sched_getaffinity")  # Linux
    cores = len(os.sched_getaffinity(0)) if allowed else os.cpu_count()
    found = _accelerators()
    return f"{cores} CPU cores, {'accelerator ' + ', '.join(found) if found else 'no accelerator'}"


def _accelerators() -> list[str]:
    """What nvidia-smi calls them; else the devices that there are."""
    program = shutil.which("nvidia-smi")
    if program is not None:
        asked = [program, "--query-gpu=name", "--format=csv,noheader"]
        told = subprocess.run(asked, capture_output=True, text=True, check=False)
        if told.returncode == 0:
            return told.stdout.split("\n")[:-1]
    return [device for device in ACCELERATORS if Path(device).exists()]


def in_words(found: Mapping[str, Any]) -> str:
    """The circumstances as one line of Markdown."""
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    return f"`{found['command']}` at commit {found['commit']}; {found['machine']}; {versions}."


def paste(file: Path, name: str, block: str) -> None:
    """Replace the block of that name in a file; raises ValueError where its markers are not."""
    text = file.read_text(encoding="utf-8")
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{file} has no block {begin} ... {end}: add the two lines to it")
    write_whole(file, f"{before}{begin}\n{block}\n{end}{after}")


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; the columns after the first are aligned to the right."""
    lines = [headers, ["---", *["---:"] * (len(headers) - 1)], *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def _commit() -> str:
    """Short hash, with '+changes' where the measured sources differ from it."""

    def git(*words: str) -> str | None:
        done = subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False
        )
        return done.stdout.strip() if done.returncode == 0 else None

    head = git("rev-parse", "--short", "HEAD")
    if head is None:
        return "unknown (not a git checkout)"
    return head + (CHANGES if git("status", "--porcelain", "--", *SOURCES) else "")
