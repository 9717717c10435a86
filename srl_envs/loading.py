"""Loading of code, files, YAML and optional packages that a configuration names."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import yaml

from srl_envs.errors import DocumentError, EnvConfigError, UntrustedError
from srl_envs.untrusted import MAX_BYTES, MAX_NESTING, read_json

LARGEST_RECORDED = 1000
"""Limit of the sum of all whole numbers in a record's options, such as agents and sides of mazes.
Every other entry counts as one, and so does a number of OF_TIME."""
OF_TIME = frozenset(
    ("debate_rounds", "episode", "history", "level_seed", "max_cycles", "problem_seed",
     "switch_pull", "warmup_episodes")
)  # fmt: skip
WAY_OUT = "give --trust (trusted=True) if you trust whoever wrote it"

_closed: ContextVar[Collection[str] | None] = ContextVar("closed", default=None)


@contextmanager
def closed(allowing: Collection[str] = ()) -> Iterator[None]:
    """Let `code` and `place` raise UntrustedError, but for the names of code in `allowing`."""
    before = _closed.set(allowing)
    try:
        yield
    finally:
        _closed.reset(before)


def is_closed() -> bool:
    """Return True while an environment is made from an untrusted record."""
    return _closed.get() is not None


def names_code(name: str) -> bool:
    """Return whether `name` has the form 'module:function', without importing anything."""
    module, _, attribute = name.partition(":")
    return all(part.isidentifier() for part in (*module.split("."), attribute))


def code(name: str, option: str | None = None) -> Callable[..., Any]:
    """Import the function or class that 'module:function' names.

    As with `python -m`, the current folder is importable. It is searched last, so that no file in
    it replaces an installed package.

    Args:
        name: 'module:function' or 'module:Class'.
        option: Setting that contains the name, for error messages.

    Raises:
        EnvConfigError: The name has another form, or the module or the attribute is missing.
        UntrustedError: A record names the code (`closed`).
    """
    named = name if option is None else f"{option}: {name}"
    module, _, attribute = name.partition(":")
    if not names_code(name):
        raise EnvConfigError(f"{named!r} is no 'module:function', such as 'my_games:chess'")
    if is_closed() and name not in (_closed.get() or ()):
        raise UntrustedError(f"{named!r} is code that a record names, and is not run: {WAY_OUT}")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found = getattr(import_module(module), attribute, None)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise  # an import within the module failed, which the traceback shows
        raise EnvConfigError(
            f"{named}: {error}; run the command in the folder of the module, or set PYTHONPATH to "
            "that folder"
        ) from error
    if not callable(found):
        raise EnvConfigError(f"{named}: module {module} has no function or class {attribute!r}")
    return found  # type: ignore[no-any-return]  # callable() says no more than that


def place(path: str | os.PathLike[str], option: str) -> Path:
    """Return the file or folder that the `option` names.

    Raises:
        EnvConfigError: `path` is no path.
        UntrustedError: A record names the path (`closed`).
    """
    if not isinstance(path, str | os.PathLike):
        raise EnvConfigError(f"{option} must name a file or folder, got {path!r:.200}")
    if is_closed():
        raise UntrustedError(
            f"{option}: {os.fspath(path)!r:.200} is a place on this machine that a record names, "
            f"and is not opened: {WAY_OUT}"
        )
    return Path(path)


def at_most(value: float, most: float, option: str) -> float:
    """Return `value`; raise UntrustedError if a record (`closed`) has more than `most`."""
    if is_closed() and value > most:
        raise UntrustedError(
            f"{option}: a record asks for {value:g}, up to {most:g} is given: {WAY_OUT}"
        )
    return value


def refuse_large(options: Mapping[str, Any]) -> None:
    """Raise UntrustedError for a record's options that ask for more than LARGEST_RECORDED."""
    size = sum(_size(name, value) for name, value in options.items())
    if size > LARGEST_RECORDED:
        raise UntrustedError(
            f"the record asks for an environment of size {size:g}, counting agents, sides and all "
            f"other numbers, at most {LARGEST_RECORDED} is made: {WAY_OUT}"
        )


def _size(name: str, value: Any) -> float:
    if isinstance(value, np.ndarray | np.generic):  # which a record may hold as well
        value = value.tolist()
    if isinstance(value, Mapping):
        return 1 + sum(_size(str(key), entry) for key, entry in value.items())
    if isinstance(value, list | tuple):
        return 1 + sum(_size(name, entry) for entry in value)
    if isinstance(value, int) and name not in OF_TIME:
        return max(1.0, min(abs(value), 1e9))
    return 1


TRAIN = ("torch", "transformers", "tokenizers", "trl", "peft", "accelerate", "datasets",
         "safetensors", "pydantic")  # fmt: skip
EXTRAS = dict.fromkeys(TRAIN, "train") | {
    "matplotlib": "plots",
    "PIL": "render",
    "mpmath": "tasks",
    "jsonschema": "tasks",
    "bm25s": "tasks",
    "pyseccomp": "sandbox",
    "bitsandbytes": "quantization",
    "gguf": "gguf",
    "openai": "openai",
    "anthropic": "anthropic",
    "openenv": "openenv",
    "uvicorn": "watch",
    "websockets": "openenv",
    "verl": "verl",
    "areal": "areal",
    "verifiers": "verifiers",
    "grpc": "grpc",
    "google": "grpc",
    "openskill": "judge",
    "starlette": "watch",
    "ray": "ray",
    "tensorboard": "tensorboard",
    "trackio": "trackio",
    "wandb": "wandb",
    "mlflow": "mlflow",
    "tenacity": "openai",  # which every extra that asks servers brings
}
"""Import name of a package -> extra that installs it."""


def pip_line(*extras: str) -> str:
    """Return the line that installs these extras."""
    return f'pip install "core-srl[{",".join(extras)}]"'


def missing(extras: Iterable[str]) -> list[str]:
    """Return those of the extras that have a package which is not installed."""
    absent = {extra for package, extra in EXTRAS.items() if find_spec(package) is None}
    return [extra for extra in extras if extra in absent]


def install_line(error: ImportError, what: str) -> str | None:
    """Return the pip line that makes `what` work; None for another import error."""
    if "core-srl[" in str(error):  # the message has the line already
        return str(error)
    package = (error.name or "").split(".")[0]
    if isinstance(error, ModuleNotFoundError) and package in EXTRAS:
        return f"{what} needs {package}: {pip_line(EXTRAS[package])}"
    return None


@contextmanager
def needed_by(what: str, raising: type[BaseException] = ImportError) -> Iterator[None]:
    """Import an extra's packages within: the error for a missing one names its install line.

    Import errors with another cause pass unchanged.
    """
    try:
        yield
    except ImportError as error:
        line = install_line(error, what)
        if line is None:
            raise
        raise raising(line) from error


MAX_YAML = 2**20
"""Maximum bytes of one document; a configuration has a few thousand."""
MAX_ENTRIES = 100_000
"""Maximum entries of one document. An alias (*name) counts as its whole target every time."""
LONGEST_NUMBER = 1000  # characters


def read_yaml(text: str) -> Any:
    """Return the plain data of a YAML text.

    Raises:
        DocumentError: The text is not YAML, has a key twice in one mapping, exceeds MAX_YAML,
            MAX_ENTRIES or MAX_NESTING, or has an alias within its own target.
    """
    if len(text) > MAX_YAML:
        raise DocumentError(f"{len(text)} characters, at most {MAX_YAML} are read")
    try:
        return yaml.load(text, _StrictLoader)
    except DocumentError:
        raise
    # PyYAML's constructors raise many exceptions: KeyError for '!!bool x', IndexError for
    # "!!int ''", AttributeError for '!!timestamp x', ValueError for a date such as 2026-13-01.
    except (
        yaml.YAMLError, LookupError, AttributeError, TypeError, ValueError, ArithmeticError
    ) as error:  # fmt: skip
        said = " ".join(str(error).split())
        raise DocumentError(f"not YAML: {said or type(error).__name__}") from error


class _StrictLoader(yaml.SafeLoader):
    """Safe YAML loader with the limits and refusals of `read_yaml`."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._sizes: dict[int, tuple[int, int]] = {}  # of finished nodes: entries, nesting

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose the next node; raise DocumentError if it is too large or nested too deep."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise DocumentError(f"nested deeper than {MAX_NESTING}")
        is_alias = self.check_event(yaml.AliasEvent)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if is_alias and id(node) not in self._sizes:
            raise DocumentError("an alias is within its own target")
        if not is_alias:
            self._sizes[id(node)] = self._measured(node)
        return node

    def compose_mapping_node(self, anchor: Any) -> Any:
        """Compose a mapping; raise DocumentError for a key that it contains twice."""
        node = super().compose_mapping_node(anchor)
        first: dict[Any, int] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                line = key.start_mark.line + 1
                name = self.construct_object(key)  # 'yes' and 'true' are the same key
                if name in first:
                    raise DocumentError(
                        f"line {line}: {key.value!r} is in this mapping already, in line "
                        f"{first[name]}: put both into one"
                    )
                first[name] = line
        return node

    def compose_scalar_node(self, anchor: Any) -> Any:
        """Compose a scalar; raise DocumentError for a number that is too long."""
        node = super().compose_scalar_node(anchor)
        if node.tag.endswith((":int", ":float")) and len(node.value) > LONGEST_NUMBER:
            raise DocumentError(f"a number of {len(node.value)} characters")
        return node

    def _measured(self, node: Any) -> tuple[int, int]:
        if isinstance(node, yaml.ScalarNode):
            return 1, 1
        parts = node.value
        if isinstance(node, yaml.MappingNode):
            parts = [part for pair in node.value for part in pair]
        sizes = [self._sizes[id(part)] for part in parts]
        entries = 1 + sum(size for size, _ in sizes)
        nesting = 1 + max((depth for _, depth in sizes), default=0)
        if entries > MAX_ENTRIES or nesting > MAX_NESTING:
            raise DocumentError(
                f"{entries} entries, {nesting} deep: at most {MAX_ENTRIES} and {MAX_NESTING} are "
                "read, an alias counts as its whole target"
            )
        return entries, nesting


# YAML 1.1 reads 1e-3 as text; YAML 1.2 reads a number.
_StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


Row = TypeVar("Row")


def read_rows(
    path: str | os.PathLike[str], what: str, read: Callable[[Any, int], Row]
) -> list[Row]:
    """Return `read(value, number)` for each line of a JSON Lines file; empty lines are skipped.

    Args:
        path: The file.
        what: Name of the rows in errors.
        read: Function of a line's value and number (from 1).

    Raises:
        EnvConfigError: The file cannot be read, a line is not JSON within the limits of
            srl_envs.untrusted, or `read` raised EnvConfigError. The message names file and line.
    """
    rows: list[Row] = []
    number = 0
    try:
        with Path(path).open(encoding="utf-8") as file:
            while line := file.readline(MAX_BYTES + 1):
                number += 1
                if line.strip():
                    rows.append(read(read_json(line), number))
    except (DocumentError, EnvConfigError) as error:
        raise EnvConfigError(f"{path}, line {number}: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise EnvConfigError(f"cannot read the {what} of {path}: {error}") from error
    return rows


def text_of(row: Mapping[str, Any], name: str) -> str:
    """Return the text of a row under a name; raise EnvConfigError if it is none, or blank."""
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise EnvConfigError(f"{name} must be a text, got {value!r:.40}")
    return value
