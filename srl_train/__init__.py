"""Training: several models at once with TRL trainers stepped by one loop of rounds."""

import logging
from importlib import import_module
from typing import Any

# Where bitsandbytes is installed PEFT imports it for every run, and it tells on a CPU that a faster
# kernel is missing, which quantised bases do not use either. Said here: before PEFT is imported.
logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)

_HOMES = {"Trainer": "srl_train.trainer", "RunConfig": "srl_train.config.run"}
__all__ = ["RunConfig", "Trainer"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"srl_train has no {name!r}; it has {', '.join(_HOMES)}")
    return getattr(import_module(_HOMES[name]), name)
