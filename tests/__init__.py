"""What every process of the tests begins with, those that tests start included."""

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
_found = cache(_find)


def _find_spec(name: str, package: str | None = None):
    """Of what is not loaded the first answer stands; tests put modules among the loaded ones."""
    return (_find if name in sys.modules else _found)(name, package)


importlib.util.find_spec = _find_spec
