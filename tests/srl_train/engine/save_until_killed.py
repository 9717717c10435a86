"""Save, replace and prune checkpoints for ever in one process, killed at random by another.

Run as a program: `python -m tests.srl_train.engine.save_until_killed FOLDER KILLS SEED`. Forks one
saver after another, kills each with SIGKILL at a random moment, and checks after every kill that
all that is listed is whole, and that nothing a save had already confirmed was lost. The last line
on stdout counts the kills that fell into the middle of a save.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from srl_train.checkpoints.checkpoint import checkpoint_name, list_checkpoints, load, prune, save

SIZE = 20_000
BEGUN = b"begun"


def save_for_ever(folder: Path, confirmed: int) -> None:
    known = list_checkpoints(folder)
    number = load(folder / known[0]).round if known else 0
    while True:
        number += 1
        for name in (checkpoint_name(number), "best"):  # 'best' is replaced every time
            save(
                folder,
                name,
                tensors={
                    f"models/model_{i}": {"w": torch.full((SIZE,), float(number))} for i in range(3)
                },
                state={"number": number, "step": torch.tensor(number)},
                metadata={"round": number},
            )
            os.write(confirmed, f"{number} {name}\n".encode())
        prune(folder, keep=4)


def check(folder: Path, last: tuple[int, str] | None) -> None:
    listed = list_checkpoints(folder)
    for name in listed:
        found = load(folder / name)
        assert found.checkpoint_id == name
        assert found.state["number"] == found.round == found.state["step"].item()
        for i in range(3):
            weights = found.tensors(f"models/model_{i}")["w"]
            assert torch.equal(weights, torch.full((SIZE,), float(found.round)))
    if last is not None:
        number, name = last
        assert name in listed, f"{name} was confirmed and is lost; listed: {listed}"
        assert load(folder / name).round >= number
        assert load(folder / listed[0]).round >= number


def main(folder: Path, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    last: tuple[int, str] | None = None
    interrupted = 0
    for _ in range(kills):
        reading, writing = os.pipe()
        saver = os.fork()
        if saver == 0:
            os.close(reading)
            os.write(writing, BEGUN)
            save_for_ever(folder, writing)
        os.close(writing)
        assert os.read(reading, len(BEGUN)) == BEGUN  # a busy machine may start it late
        time.sleep(rng.uniform(0.01, 0.12))
        os.kill(saver, signal.SIGKILL)
        os.waitpid(saver, 0)
        with os.fdopen(reading) as told:
            lines = told.read().splitlines()
        if lines:
            number, name = lines[-1].split()
            last = (int(number), name)
        interrupted += any(path.name.startswith(".") for path in folder.iterdir())
        check(folder, last)
    assert last is not None, "no saver lived long enough to save"
    sys.stdout.write(f"{interrupted} {last[0]}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
