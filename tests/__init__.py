"""Settings of every test process, including the processes that tests start."""

import importlib.metadata
import importlib.util
import os
import sys
from functools import cache

# Keep bytecode, because otherwise every process compiles the packages again and every worker
# rewrites the assertions of all tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# No test compiles models. With Dynamo enabled, bitsandbytes makes torch import its compiler, which
# takes a fifth of a training process's start-up time.
os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")

# Threads do not speed up loading of models of 100 kB.
os.environ.setdefault("HF_DEACTIVATE_ASYNC_LOAD", "1")
# accelerate searches for a dozen packages and reads PEFT's metadata again and again: a sixth of the
# time of a short training.
importlib.metadata.metadata = cache(importlib.metadata.metadata)
_find = importlib.util.find_spec


@cache
def _found(name: str, package: str | None, path: tuple[str, ...]):
    return _find(name, package)


def _find_spec(name: str, package: str | None = None):
    """Cache the answer for modules that are not loaded, separately for each state of `sys.path`."""
    if name in sys.modules:
        return _find(name, package)
    return _found(name, package, tuple(sys.path))


importlib.util.find_spec = _find_spec
