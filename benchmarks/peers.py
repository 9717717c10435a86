"""Cost and sample efficiency beside other libraries, each in a virtual environment of its own.

python -m benchmarks.peers [--repeats 5] [--rounds 6] [--folder build/peers] [--markdown FILE]

Three comparisons, in each of which all sides have the same model, game and number of sampled
answers:

- two models in a common-payoff game of three steps, with CoMLRL's MAGRPO;
- one model against tit for tat, with TRL's GRPOTrainer and a rollout function written by hand;
- text games played from answer to answer, with TextArena.

Repeat n trains with seed n. The sides of a comparison take turns within each repeat.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import records
from benchmarks.peer_sides import games
from benchmarks.peer_sides.words import TURNS
from benchmarks.records import ROOT, OverSeeds, Repeats
from srl_agents.llm import tiny

SIDES = Path(__file__).parent / "peer_sides"
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": str(ROOT),
    "WANDB_MODE": "disabled",
    "TRL_EXPERIMENTAL_SILENCE": "1",
}
RATE = 1e-3  # learning rate of all trainings; MAGRPO is measured at three times the rate, too
PASSES = {
    "credit.name": "agent_turn",
    "algorithm.num_iterations": TURNS,
    "algorithm.clip_range": 100.0,
}
"""As many optimizer steps per round as MAGRPO, whose updates are not clipped either."""


@dataclass(frozen=True)
class Side:
    """A measured program, `benchmarks/peer_sides/PROGRAM.py`."""

    name: str
    program: str
    package: str | None = None
    """Package of the peer for pip; None runs in this virtual environment."""
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def measure(self, folder: Path, **common: Any) -> dict[str, Any]:
        """Run the program with `common` and this side's arguments, and return its last line."""
        arguments = json.dumps({**common, **self.arguments})
        done = subprocess.run(
            [self._python(folder), SIDES / f"{self.program}.py", arguments],
            cwd=ROOT, env={**os.environ, **ENVIRONMENT}, check=True,
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    def _python(self, folder: Path) -> str:
        """Return the interpreter, after installing the peer into FOLDER/PACKAGE if necessary."""
        if self.package is None:
            return sys.executable
        python = folder / self.package / "bin" / "python"
        ready = folder / self.package / ".installed"
        if not ready.exists():
            subprocess.run([sys.executable, "-m", "venv", folder / self.package], check=True)
            install = [python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt"]
            subprocess.run([*install, self.package], check=True, stdout=sys.stderr)
            ready.touch()
        return str(python)


TEAM = (
    Side("ours", "ours_team"),
    Side(f"ours, {TURNS} passes per step's rewards", "ours_team", None, {"settings": PASSES}),
    Side("CoMLRL", "comlrl_team", "comlrl"),
    Side("CoMLRL, three times the rate", "comlrl_team", "comlrl", {"rate": 3 * RATE}),
)
SOLO = (Side("ours", "ours_solo"), Side("TRL", "trl_solo"))
TEXT = tuple(
    (game, Side("ours", "ours_text", None, {"game": game}),
     Side("TextArena", "textarena_text", "textarena", {"game": peer}))
    for game, peer in games.TEXT_GAMES.items()
)  # fmt: skip


def trained(sides: Sequence[Side], folder: Path, repeats: int, **common: Any) -> str:
    """Measure the trainings of a comparison and return a Markdown table with one row per side."""
    found: dict[str, list[dict[str, Any]]] = {side.name: [] for side in sides}
    for repeat in range(repeats):
        for side in sides if repeat % 2 == 0 else sides[::-1]:
            measured = side.measure(folder, seed=repeat, **common)
            found[side.name].append(measured)
    rows = []
    for name, runs in found.items():
        steps = Repeats(1e3 * run["round_seconds"] / run["steps"] for run in runs)
        answers = Repeats(1e6 * run["round_seconds"] / run["answers"] for run in runs)
        memory = Repeats(run["peak_memory"] / 1e6 for run in runs)
        rewards = [OverSeeds(run["rewards"][n] for run in runs).interval for n in (2, -1)]
        rows.append((
            name, runs[0]["steps"], f"{steps:.0f}", f"{answers:.0f}", f"{memory:.0f}",
            *(f"{reward:.2f}" for reward in rewards),
        ))  # fmt: skip
    headers = ("", "optimizer steps per round", "CPU ms per step", "CPU µs per answer", "peak MB",
               "reward, round 3", f"round {common['rounds']}")  # fmt: skip
    return records.table(headers, rows)


def played(folder: Path, repeats: int) -> str:
    """Measure the text games and return a Markdown table with one row per game."""
    rows = []
    for game, *pair in TEXT:
        rates = records.in_turns(
            {side.name: lambda _, side=side: side.measure(folder)["rate"] / 1e3 for side in pair},
            repeats,
        )
        ratio = records.ratios(rates["ours"], rates["TextArena"])
        rows.append((game, f"{rates['ours']:.0f}", f"{rates['TextArena']:.0f}", f"{ratio:.2f}"))
    return records.table(("", "ours, thousand steps per CPU-s", "TextArena", "ratio"), rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and record; return the exit code."""
    parser = records.parser(__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="repeats and seeds of each side")
    parser.add_argument("--rounds", type=int, default=6, help="rounds of a training, at least 3")
    parser.add_argument("--folder", type=Path, default=Path("build/peers"), metavar="FOLDER",
                        help="folder of the peers' virtual environments")  # fmt: skip
    options = parser.parse_args(arguments)
    folder, common = options.folder.absolute(), {"rounds": options.rounds, "rate": RATE}
    parts = [
        f"Two models, {TURNS} steps, common payoff; reward per step (optimum 1).",
        trained(TEAM, folder, options.repeats, base=str(tiny.folder(games.Team)), **common),
        "One model against tit for tat, 4 steps.",
        trained(SOLO, folder, options.repeats, base=str(tiny.folder(games.solo)), **common),
        "Text games.",
        played(folder, options.repeats),
    ]
    return records.keep("\n\n".join(parts), options)


if __name__ == "__main__":
    raise SystemExit(main())
