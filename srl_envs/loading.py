"""Loading of code, files, YAML and optional packages that configurations and records name."""

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
from srl_envs.untrusted import MAX_BYTES, MAX_NESTING, check_nesting, read_json

LARGEST_RECORDED = 1000
"""Greatest size of the options of an untrusted record: the sum of all whole numbers, such as the
number of agents. Other values and the options in OF_TIME count as 1."""
OF_TIME = frozenset(
    ("debate_rounds", "episode", "history", "level_seed", "max_cycles", "problem_seed",
     "switch_pull", "warmup_episodes")
)  # fmt: skip
WAY_OUT = "give --trust (trusted=True) if you trust its author"

_closed: ContextVar[Collection[str] | None] = ContextVar("closed", default=None)


@contextmanager
def closed(allowing: Collection[str] = ()) -> Iterator[None]:
    """Context in which `code` and `place` raise UntrustedError, and `at_most` enforces its limit.

    `allowing` contains the names 'module:function' that `code` imports nevertheless.
    """
    before = _closed.set(allowing)
    try:
        yield
    finally:
        _closed.reset(before)


def is_closed() -> bool:
    """Return True inside the context `closed` (an untrusted record is being read), else False."""
    return _closed.get() is not None


def names_code(name: str) -> bool:
    """Return True if `name` has the form 'module:function'; nothing is imported."""
    module, _, attribute = name.partition(":")
    return all(part.isidentifier() for part in (*module.split("."), attribute))


def code(name: str, option: str | None = None) -> Callable[..., Any]:
    """Import and return the function or class that 'module:function' names.

    The current folder is added to the end of `sys.path`, so that its files do not replace installed
    packages.

    Args:
        name: 'module:function' or 'module:Class'.
        option: Setting that contains the name, for errors, or None.

    Raises:
        EnvConfigError: The name has another form, or the module is missing or lacks the callable.
        ImportError: The module imports a package that is missing.
        UntrustedError: Called inside `closed`, which does not allow the name.
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
            raise  # The module was found, but it imports a missing one.
        raise EnvConfigError(
            f"{named}: {error}; run the command in the folder of the module, or set PYTHONPATH to "
            "that folder"
        ) from error
    if not callable(found):
        raise EnvConfigError(f"{named}: module {module} has no function or class {attribute!r}")
    return found  # type: ignore[no-any-return]  # callable() narrows the type to object


def place(path: str | os.PathLike[str], option: str) -> Path:
    """Return `path`, the value of the setting `option`, as a Path; "~" is the user's home folder.

    Raises:
        EnvConfigError: `path` is neither a string nor a path.
        UntrustedError: Called inside `closed`.
    """
    if not isinstance(path, str | os.PathLike):
        raise EnvConfigError(f"{option} must be the path of a file or folder, got {path!r:.200}")
    if is_closed():
        raise UntrustedError(
            f"{option}: {os.fspath(path)!r:.200} is a place on this machine that a record names, "
            f"and is not opened: {WAY_OUT}"
        )
    return Path(os.path.expanduser(path))


def at_most(value: float, limit: float, option: str) -> float:
    """Return `value`; inside `closed`, raise UntrustedError, naming `option`, if over `limit`."""
    if is_closed() and value > limit:
        raise UntrustedError(
            f"{option} must be at most {limit:g} in a record, got {value:g}: {WAY_OUT}"
        )
    return value


def refuse_large(options: Mapping[str, Any]) -> None:
    """Raise UntrustedError if the size of a record's options is above LARGEST_RECORDED.

    Each int counts as its absolute value, at least 1, also in nested containers. All other values,
    each container and each int of an option in OF_TIME (such as `max_cycles`) count as 1.
    """
    size = sum(_size(name, value) for name, value in options.items())
    if size > LARGEST_RECORDED:
        raise UntrustedError(
            f"the sum of all numbers in a record's options must be at most {LARGEST_RECORDED}, got "
            f"{size:g}: {WAY_OUT}"
        )


def _size(name: str, value: Any) -> float:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return 1 + sum(_size(str(key), entry) for key, entry in value.items())
    if isinstance(value, list | tuple):
        return 1 + sum(_size(name, entry) for entry in value)
    if isinstance(value, int) and name not in OF_TIME:
        return max(1.0, min(abs(value), 1e9))
    return 1


PACKAGES: Mapping[str, tuple[str, ...]] = {
    "train": (
        *("torch", "transformers", "tokenizers", "trl", "peft", "accelerate", "datasets"),
        *("safetensors", "pydantic"),
    ),
    "tasks": ("mpmath", "jsonschema", "bm25s"),
    "sandbox": ("pyseccomp",),
    "plots": ("matplotlib",),
    "render": ("PIL",),
    "quantization": ("bitsandbytes",),
    "openenv": ("openenv", "websockets"),
    "watch": ("uvicorn", "starlette"),
    "grpc": ("grpc", "google"),
    **{
        name: (name,)
        for name in (
            *("gguf", "openai", "anthropic", "verl", "areal", "verifiers", "ray"),
            *("tensorboard", "trackio", "wandb", "mlflow"),
        )
    },
}
"""Import names of the packages that each extra installs."""
EXTRAS = {package: extra for extra, packages in PACKAGES.items() for package in packages}


def pip_line(*extras: str) -> str:
    """Return the shell command that installs these extras: pip install "core-srl[a,b]"."""
    return f'pip install "core-srl[{",".join(extras)}]"'


def missing(extras: Iterable[str]) -> list[str]:
    """Return the entries of `extras`, in order, that are known but not fully installed."""
    absent = {extra for package, extra in EXTRAS.items() if find_spec(package) is None}
    return [extra for extra in extras if extra in absent]


def install_line(error: ImportError, what: str) -> str | None:
    """Return "<what> needs <package>: <install command>" for a missing package of an extra.

    A message of `error` that already contains the command is returned. Other errors give None.
    """
    if "core-srl[" in str(error):  # The message already contains the command.
        return str(error)
    package = (error.name or "").split(".")[0]
    if isinstance(error, ModuleNotFoundError) and package in EXTRAS:
        return f"{what} needs {package}: {pip_line(EXTRAS[package])}"
    return None


@contextmanager
def needed_by(what: str, raising: type[BaseException] = ImportError) -> Iterator[None]:
    """Context for imports of optional packages that the feature `what` needs.

    A missing package of an extra raises `raising` with the install command. Other errors pass.
    """
    try:
        yield
    except ImportError as error:
        line = install_line(error, what)
        if line is None:
            raise
        raise raising(line) from error


MAX_YAML = 2**20
"""Maximum number of characters of a YAML document."""
MAX_ENTRIES = 100_000
"""Maximum number of entries of a YAML document. An alias counts as its whole target."""
LONGEST_NUMBER = 1000  # characters


def read_yaml(text: str) -> Any:
    """Return the data of a YAML text, which may include dates; None for an empty text.

    Raises DocumentError if the text is not YAML, contains a key twice in one mapping or an alias
    within its own target, or exceeds MAX_YAML, MAX_ENTRIES, MAX_NESTING or LONGEST_NUMBER.
    """
    if len(text) > MAX_YAML:
        raise DocumentError(f"a document may have at most {MAX_YAML} characters, got {len(text)}")
    try:
        value = yaml.load(text, _StrictLoader)
        check_nesting(value)
        return value
    except DocumentError:
        raise
    # PyYAML's constructors raise many exceptions: KeyError for '!!bool x', IndexError for
    # "!!int ''", AttributeError for '!!timestamp x', ValueError for a date such as 2026-13-01.
    except (
        yaml.YAMLError, LookupError, AttributeError, TypeError, ValueError, ArithmeticError
    ) as error:  # fmt: skip
        message = " ".join(str(error).split())
        raise DocumentError(f"not YAML: {message or type(error).__name__}") from error


class _StrictLoader(yaml.SafeLoader):
    """Safe YAML loader with all limits of `read_yaml` but MAX_YAML."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._entries: dict[int, int] = {}  # node id -> number of entries

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise DocumentError(f"nested deeper than {MAX_NESTING}")
        is_alias = self.check_event(yaml.AliasEvent)
        node: Any = super().compose_node(parent, index)
        self._depth -= 1
        if is_alias and id(node) not in self._entries:
            raise DocumentError("an alias is within its own target")
        if not is_alias:
            parts = [] if isinstance(node, yaml.ScalarNode) else node.value
            if isinstance(node, yaml.MappingNode):
                parts = [part for pair in node.value for part in pair]
            entries = 1 + sum(self._entries[id(part)] for part in parts)
            self._entries[id(node)] = entries
            if entries > MAX_ENTRIES:
                raise DocumentError(f"a document may have at most {MAX_ENTRIES} entries")
        return node

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        first: dict[Any, int] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                line = key.start_mark.line + 1
                name = self.construct_object(key)  # 'yes' and 'true' are the same key.
                if name in first:
                    raise DocumentError(
                        f"line {line}: {key.value!r} is already a key of this mapping, in line "
                        f"{first[name]}"
                    )
                first[name] = line
        return node

    def compose_scalar_node(self, anchor: Any) -> Any:
        node = super().compose_scalar_node(anchor)
        if node.tag.endswith((":int", ":float")) and len(node.value) > LONGEST_NUMBER:
            raise DocumentError(f"a number of {len(node.value)} characters")
        return node


# PyYAML (YAML 1.1) reads 1e-3 as text. This adds the rule of YAML 1.2.
_StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


Row = TypeVar("Row")


def read_rows(
    path: str | os.PathLike[str], what: str, read: Callable[[Any, int], Row]
) -> list[Row]:
    """Return `read(value, number)` for each line of a JSON Lines file, except blank lines.

    Args:
        path: The file.
        what: Name of the rows in errors.
        read: Function of a line's JSON value and the line's number, from 1.

    Raises:
        EnvConfigError: The file cannot be read, a line is not JSON within the limits of
            srl_envs.untrusted, or `read` raised EnvConfigError. The last two name the line.
    """
    rows: list[Row] = []
    number = 0
    try:
        with Path(path).open(encoding="utf-8-sig") as file:
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
    """Return the string `row[name]`; raise EnvConfigError if it is missing, no str, or blank."""
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise EnvConfigError(f"{name} must be a text, got {value!r:.40}")
    return value
