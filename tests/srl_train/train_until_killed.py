"""Program that trains a run in processes that are killed, until the run is complete.

`python -m tests.srl_train.train_until_killed CONFIG FOLDER KILLS SEED` prints the numbers of killed
processes and of checkpoints left half written. The first process dies in its second checkpoint.
"""

import os
import random
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path

from srl_train import checkpoints as checkpoint
from srl_train.config import yaml_file
from srl_train.trainer import Trainer


def train(config, folder: Path) -> None:
    """Begin, or go on from the newest checkpoint."""
    trainer = Trainer(config, folder)
    if checkpoint.list_checkpoints(folder / "checkpoints"):
        trainer.load_checkpoint()
    else:
        shutil.rmtree(folder, ignore_errors=True)
    trainer.fit()


def train_in_child(config, folder: Path, *, kill_at_save: int | None = None) -> int:
    """Returns the child's process id."""
    child = os.fork()
    if child:
        return child
    if kill_at_save is not None:
        seal, saves = checkpoint.seal, []

        def killing(*arguments, **settings):
            saves.append(None)
            if len(saves) == kill_at_save:
                os.kill(os.getpid(), signal.SIGKILL)
            return seal(*arguments, **settings)

        checkpoint.seal = killing
    try:
        train(config, folder)
    except BaseException:  # noqa: BLE001  # a child must never go on as its parent would
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def main(config_path: Path, folder: Path, kills: int, seed: int) -> None:
    config = yaml_file.load(config_path)
    rng = random.Random(seed)
    killed = half_written = 0
    longest = 1.0
    while True:
        began = time.monotonic()
        child = train_in_child(config, folder, kill_at_save=2 if killed == 0 else None)
        if 0 < killed < kills:
            time.sleep(rng.uniform(0.0, longest))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        for name in checkpoint.list_checkpoints(folder / "checkpoints"):
            checkpoint.load(folder / "checkpoints" / name)
        if not os.WIFSIGNALED(status):
            assert os.waitstatus_to_exitcode(status) == 0, "the training failed"
            break  # done: alone, or before its killer came
        killed += 1
        longest = max(longest, time.monotonic() - began)
        half_written += any(
            path.name.startswith(".saving.") for path in (folder / "checkpoints").glob(".*")
        )
    sys.stdout.write(f"{killed} {half_written}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
