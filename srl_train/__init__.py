"""Training of several models at once, by TRL trainers that one loop of rounds steps."""

import logging
from importlib import import_module
from typing import Any

# PEFT imports an installed bitsandbytes, which warns on a CPU that a faster kernel is missing. The
# kernel is not used here. The level must be set before PEFT is imported.
logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)

_HOMES = {"Trainer": "srl_train.trainer", "RunConfig": "srl_train.config.run"}
__all__ = ["RunConfig", "Trainer"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module srl_train has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
