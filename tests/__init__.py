"""Settings of every test process, including the processes that tests start."""

import importlib.metadata
import importlib.util
import os
import sys
from functools import cache

# Bytecode is kept, whatever the surroundings say: without it every process compiles us anew, and
# every worker rewrites the assertions of all tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Nothing is compiled here, but where bitsandbytes marks what could be, torch imports all that
# compiles: a fifth of the time in which a process that trains comes up.
os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")

# Nor does it take threads to load models of a hundred kilobytes.
os.environ.setdefault("HF_DEACTIVATE_ASYNC_LOAD", "1")
# accelerate reads a package's metadata each time that it asks whether PEFT is there, and looks for
# a dozen others as often: a sixth of the time of a short training.
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
