"""Cost and sample efficiency next to other libraries, each in a separate virtual environment.

python -m benchmarks.peers [--repeats 5] [--rounds 6] [--folder build/peers] [--markdown FILE]

In the trainings, both sides have the same model, game and number of sampled answers:

- two models in a common-payoff game of three steps, with CoMLRL's MAGRPO;
- one model against tit for tat, with TRL's GRPOTrainer and a rollout function written by hand.

Repeat n trains with seed n, and the sides take turns within each repeat. A third table evaluates a
served model with verifiers' runner, through our bridge, and with ours. The others have the rows of
`benchmarks.env_speed` with PettingZoo, OpenSpiel, TextArena and MiniGrid, and with JaxMARL.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import records
from benchmarks.peer_sides import games
from benchmarks.peer_sides.words import GROUP, NODES, TURNS
from benchmarks.records import ROOT, OverSeeds, Repeats, in_turns
from srl_agents.llm import tiny

SIDES = Path(__file__).parent / "peer_sides"
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "compat" / "srl_games")]),
    "WANDB_MODE": "disabled",
    "TRL_EXPERIMENTAL_SILENCE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",  # TRL sends it in a thread
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",  # one thread
}
RATE = 1e-3  # learning rate of all trainings; MAGRPO is measured at three times the rate, too
PINS = f"--constraint={ROOT}/constraints.txt"
PACKAGES = {
    "comlrl": [PINS, "comlrl", "torch"],  # CoMLRL does not install PyTorch
    "textarena": [PINS, f"{ROOT}[openspiel,textarena]", "pygame-ce", "minigrid"],
    "ours": [PINS, f"{ROOT}[train]"],  # without optional packages, which TRL would import
    "jaxmarl": [str(ROOT), "jaxmarl==0.2.0", "jax==0.10.2"],  # needs an older Gymnasium than PINS
    "verifiers": ["--no-deps", "-r", f"{ROOT}/constraints/verifiers.txt"],
}
"""Virtual environment -> its packages for pip."""
PAIR = {"models.count": 2, "rollout.group_size": GROUP, "rollout.groups_per_round": NODES // TURNS}
"""Number of answers per round equal to that of MAGRPO's tree."""
PASSES = {
    "credit.name": "agent_turn",
    "algorithm.num_iterations": TURNS,
    "algorithm.clip_range": 100.0,
}
"""Number of optimizer steps equal to MAGRPO's, whose updates are not clipped either."""
PARTS = {"algorithm.gradient_accumulation_steps": GROUP}
"""Forward and backward passes with a part of the samples, which require less memory."""
ONE = {
    "models.count": 1,
    "seats": {"agent_1": "tit_for_tat"},
    "rollout.group_size": 16,
    "rollout.groups_per_round": 4,
}


@dataclass(frozen=True)
class Side:
    """A measured program, `benchmarks/peer_sides/PROGRAM.py`."""

    name: str
    program: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    peer: str | None = None
    """Virtual environment of a peer; None runs in "ours" or, in tests, in this one."""

    def measure(self, folder: Path, **common: Any) -> dict[str, Any]:
        """Run the program with `common` and this side's arguments, and return its last line."""
        python = sys.executable if self.peer is None else installed(folder, self.peer)
        arguments = json.dumps({**common, **self.arguments})
        output = output_of(python, SIDES / f"{self.program}.py", arguments)
        found: dict[str, Any] = json.loads(output.splitlines()[-1])
        return found


def installed(folder: Path, peer: str) -> Path:
    """Return the interpreter of the virtual environment FOLDER/PEER, which is built if missing."""
    python, ready = folder / peer / "bin" / "python", folder / peer / ".installed"
    if not ready.exists():
        output_of(sys.executable, "-m", "venv", folder / peer)
        output_of(python, "-m", "pip", "install", *PACKAGES[peer])
        ready.touch()
    return python


def output_of(*command: str | Path) -> str:
    """Run a command at the root of the project and return its output."""
    path = f"{Path(command[0]).parent}{os.pathsep}{os.environ['PATH']}"  # verifiers starts uv
    environment = {**os.environ, **ENVIRONMENT, "PATH": path}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


TEAM = (
    Side("ours", "ours", {"game": "Team", "settings": PAIR}),
    Side(f"ours, {TURNS} passes per step's rewards", "ours",
         {"game": "Team", "settings": PAIR | PASSES}),
    Side(f"ours, {TURNS} passes, {GROUP} parts per step", "ours",
         {"game": "Team", "settings": PAIR | PASSES | PARTS}),
    Side("CoMLRL", "comlrl_team", peer="comlrl"),
    Side("CoMLRL, three times the rate", "comlrl_team", {"rate": 3 * RATE}, peer="comlrl"),
)  # fmt: skip
SOLO = (Side("ours", "ours", {"game": "solo", "settings": ONE}), Side("TRL", "trl_solo"))
EVALUATION = {"ours": 64, "verifiers": 1}  # number of episodes


def trained(sides: Sequence[Side], folder: Path, repeats: int, **common: Any) -> str:
    """Measure the trainings of a comparison and return a Markdown table with one row per side."""
    sides = [replace(side, peer=side.peer or "ours") for side in sides]
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
        gains = OverSeeds(1e3 * run["rewards"][-1] / run["tokens"] for run in runs).interval
        rows.append((
            name, runs[0]["steps"], f"{steps:.0f}", f"{answers:.0f}", f"{memory:.0f}",
            *(f"{reward:.2f}" for reward in rewards), f"{gains:.3f}",
        ))  # fmt: skip
    headers = ("", "optimizer steps per round", "CPU ms per step", "CPU µs per answer", "peak MB",
               "reward, round 3", f"round {common['rounds']}", "per 1,000 tokens")  # fmt: skip
    return records.table(headers, rows)


def evaluated(folder: Path, repeats: int) -> str:
    """Measure the evaluations and return a Markdown table with one row per side."""

    def cost(runner: str, _: int) -> float:
        given = {"runner": runner, "episodes": EVALUATION[runner]}
        return float(Side(runner, "evaluation", given, peer="verifiers").measure(folder)["ms"])

    found = in_turns({name: partial(cost, name) for name in EVALUATION}, repeats)
    rows = [(name, f"{costs:.3g}") for name, costs in found.items()]
    return records.table(("", "CPU ms per request"), rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and record; return the exit code."""
    parser = records.parser(__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="repeats and seeds of each side")
    parser.add_argument("--rounds", type=int, default=6, help="rounds of a training, at least 3")
    parser.add_argument("--folder", type=Path, default=Path("build/peers"), metavar="FOLDER",
                        help="folder of the peers' virtual environments")  # fmt: skip
    options = parser.parse_args(arguments)
    folder, common = options.folder.absolute(), {"rounds": options.rounds, "rate": RATE}
    speed = ["-m", "benchmarks.env_speed", "--compared", "--repeats", str(options.repeats)]
    parts = [
        f"Two models, {TURNS} steps, common payoff; reward per step (optimum 1).",
        trained(TEAM, folder, options.repeats, base=str(tiny.folder(games.Team)), **common),
        "One model against tit for tat, 4 steps.",
        trained(SOLO, folder, options.repeats, base=str(tiny.folder(games.solo)), **common),
        "Evaluation of a served model against tit for tat, 4 requests per episode.",
        evaluated(folder, options.repeats),
        "Games.",
        output_of(installed(folder, "textarena"), *speed).partition("\n\n- ")[0],
        "Batches of small games on arrays, at most 6 steps per episode.",
        "|" + output_of(installed(folder, "jaxmarl"), *speed).partition("|")[2],
    ]
    return records.keep("\n\n".join(parts), options)


if __name__ == "__main__":
    raise SystemExit(main())
