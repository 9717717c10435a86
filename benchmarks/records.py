"""Records of measurements: circumstances, checks, Markdown tables and statistics of repeats."""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from scipy import stats

from srl_train.run_files import write_whole

ROOT = Path(__file__).parents[1]
CONFIGS = ROOT / "examples" / "configs"
PACKAGES = ("torch", "transformers", "trl", "peft", "stable-baselines3", "numpy", "pettingzoo")
# Results pages are left out: a pasted result changes no measurement.
SOURCES = ("srl_envs", "srl_agents", "srl_train", "srl_extensions", "benchmarks/*.py",
           "benchmarks/claims", "examples", "pyproject.toml")  # fmt: skip
Side = TypeVar("Side", bound=Hashable)


@dataclass(frozen=True)
class Check:
    """A condition of a claim, and whether the measured numbers (`seen`) meet it."""

    claim: str
    held: bool
    seen: str

    def __str__(self) -> str:
        return f"{'held' if self.held else 'NOT HELD'}: {self.claim} ({self.seen})"


def parser(docstring: str | None) -> argparse.ArgumentParser:
    """Return the parser of a measuring command, with `--markdown`."""
    made = argparse.ArgumentParser(_command(), description=(docstring or "").partition("\n")[0])
    made.add_argument("--markdown", type=Path, metavar="FILE", help="also write tables to FILE")
    return made


def keep(markdown: str, options: argparse.Namespace, checks: Sequence[Check] = ()) -> int:
    """Print tables and checks, and write them with the circumstances to the file of `--markdown`.

    Returns 1 if a check does not hold, else 0.
    """
    if checks:
        markdown += "\n\n" + "\n".join(f"- {check}" for check in checks)
    print(markdown)
    if options.markdown is not None:
        line = "`{command}` at commit {commit}; {machine}.".format_map(circumstances())
        write_whole(options.markdown, f"{line}\n\n{markdown.strip()}\n")
    return int(not all(check.held for check in checks))


def circumstances() -> dict[str, str]:
    """Return the command, the commit, and the machine with the versions of installed packages."""
    command = " ".join([_command(), *map(shlex.quote, sys.argv[1:])])
    found = {one.name.replace("_", "-"): one.version for one in metadata.distributions()}
    versions = ", ".join(f"{name} {found[name]}" for name in PACKAGES if name in found)
    return {"command": command, "commit": commit(), "machine": f"{machine()}; {versions}"}


def machine() -> str:
    """Return the usable cores and accelerators, such as '2 CPU cores, no accelerator'."""
    allowed = hasattr(os, "sched_getaffinity")  # Linux
    cores = len(os.sched_getaffinity(0)) if allowed else os.cpu_count()
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    found = ""
    if shutil.which("nvidia-smi"):
        done = subprocess.run(query, capture_output=True, text=True, check=False)
        found = ", ".join(done.stdout.splitlines()) if done.returncode == 0 else ""
    return f"{cores} CPU cores, {'accelerator ' + found if found else 'no accelerator'}"


def commit() -> str:
    """Return the short hash, with '+changes' where the measured sources differ from it."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--", *SOURCES)
    return git("rev-parse", "--short", "HEAD") + ("+changes" if changed else "")


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table whose columns after the first are aligned to the right."""
    lines = [headers, ["---", *["---:"] * (len(headers) - 1)], *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


class Estimate(NamedTuple):
    """A mean and its standard error (None for a single value), formatted 'mean ± error'."""

    mean: float
    error: float | None

    def __format__(self, form: str) -> str:
        return f"{self.mean:{form}}" + ("" if self.error is None else f" ± {self.error:{form}}")

    def minus(self, other: Estimate) -> Estimate:
        """Return the difference to an independent estimate; unknown errors count as 0."""
        error = math.hypot(self.error or 0.0, other.error or 0.0)
        return Estimate(self.mean - other.mean, error)


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean of independent values and its standard error."""
    several = len(values) > 1
    error = statistics.stdev(values) / math.sqrt(len(values)) if several else None
    return Estimate(statistics.fmean(values), error)


class Interval(NamedTuple):
    """A mean and its interval, formatted 'mean (low to high)'."""

    mean: float
    low: float
    high: float

    def __format__(self, form: str) -> str:
        ends = f" ({self.low:{form}} to {self.high:{form}})" if self.high > self.low else ""
        return f"{self.mean:{form}}{ends}"

    @property
    def half(self) -> float:
        """Half of its length."""
        return (self.high - self.low) / 2


class Repeats(tuple[float, ...]):
    """Repeated measurements of one number, formatted 'median (least to greatest)'."""

    @property
    def middle(self) -> float:
        """The median."""
        return statistics.median(self)

    def __format__(self, form: str) -> str:
        if len(set(self)) == 1:
            return f"{self[0]:{form}}"
        return f"{self.middle:{form}} ({min(self):{form}} to {max(self):{form}})"


class OverSeeds(Repeats):
    """One number for each of several seeds, formatted 'mean (least to greatest)'."""

    @property
    def middle(self) -> float:
        """The mean."""
        return statistics.fmean(self)

    @property
    def interval(self) -> Interval:
        """The mean and its 95 % interval by Student's t."""
        return Interval(*mean_interval(self))

    @property
    def equal_within(self) -> float:
        """Smallest margin within which two one-sided t tests at 5 % show that the mean is zero.

        The margin is the farther end of the 90 % interval (Schuirmann 1987), NaN for one seed.
        """
        _, low, high = mean_interval(self, 0.9)
        return max(abs(low), abs(high))


def in_turns(
    sides: Mapping[Side, Callable[[int], float]], repeats: int, warm_ups: int = 0
) -> dict[Side, Repeats]:
    """Measure all sides within every repeat, so that a busy minute affects all of them.

    Sides receive the number of the repeat. Their order alternates; `warm_ups` are discarded.
    """
    found: dict[Side, list[float]] = {side: [] for side in sides}
    for repeat in range(warm_ups + repeats):
        for side in list(sides) if repeat % 2 == 0 else reversed(list(sides)):
            found[side].append(sides[side](repeat))
    return {side: Repeats(values[warm_ups:]) for side, values in found.items()}


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> Repeats:
    """Return numerator / denominator of each repeat."""
    return Repeats(a / b for a, b in zip(numerators, denominators, strict=True))


def _command() -> str:
    """Return the command line of this program without its arguments."""
    module = getattr(sys.modules["__main__"], "__spec__", None)
    name = module.name.removesuffix(".__main__") if module is not None else sys.argv[0]
    return f"python -m {name}"


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float, float]:
    """Return the mean with its interval by Student's t, (mean, low, high); NaN for too few values.

    NaN and infinite values are ignored.
    """
    known = [value for value in values if math.isfinite(value)]
    if len(known) < 2:
        return (known or [math.nan])[0], math.nan, math.nan
    mean, error = estimate(known)
    half = float(stats.t.ppf((1 + confidence) / 2, len(known) - 1)) * (error or 0.0)
    return mean, mean - half, mean + half


class Kept:
    """Results in a file of JSON lines, so that an interrupted measurement continues."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else ()
        self.results = {_json(key): result for key, result in map(json.loads, lines)}
        """Key as JSON -> result."""

    def __call__(self, key: Any, compute: Callable[[], Any]) -> Any:
        """Return the result that is kept under `key`; compute it and append it if it is new."""
        written = _json(key)
        if written not in self.results:
            self.results[written] = compute()
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([key, self.results[written]]) + "\n")
        return self.results[written]


def _json(key: Any) -> str:
    return json.dumps(key, sort_keys=True)
