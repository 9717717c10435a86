"""Optional dependencies: which extra installs a missing package."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

TRAIN = ("torch", "transformers", "tokenizers", "trl", "peft", "accelerate", "datasets",
         "safetensors", "pydantic", "rich")  # fmt: skip
EXTRAS = dict.fromkeys(TRAIN, "train") | {
    "matplotlib": "plots",
    "PIL": "render",
    "mpmath": "tasks",
    "math_verify": "math-verify",
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
    "grpc_health": "grpc",
    "google": "grpc",
    "openskill": "judge",
    "starlette": "watch",
    "ray": "ray",
    "shtab": "completion",
    "tensorboard": "tensorboard",
    "trackio": "trackio",
    "wandb": "wandb",
    "mlflow": "mlflow",
    "tenacity": "openai",  # which every extra that asks servers brings
}
"""Package, as it is imported -> the extra that brings it."""


def pip_line(*extras: str) -> str:
    """Return the line that installs these extras."""
    return f'pip install "core-srl[{",".join(extras)}]"'


def missing(extras: Iterable[str]) -> list[str]:
    """Return those of the extras that have a package which is not installed."""
    absent = {extra for package, extra in EXTRAS.items() if find_spec(package) is None}
    return [extra for extra in extras if extra in absent]


def install_line(error: ImportError, what: str) -> str | None:
    """The pip line that makes `what` work; None for an import error of another cause."""
    if "core-srl[" in str(error):  # whoever raised it says so already
        return str(error)
    package = (error.name or "").split(".")[0]
    if isinstance(error, ModuleNotFoundError) and package in EXTRAS:
        return f"{what} needs {package}: {pip_line(EXTRAS[package])}"
    return None


@contextmanager
def needed_by(what: str, raising: type[BaseException] = ImportError) -> Iterator[None]:
    """Import an extra's packages within: the error for a missing one names its install line.

    Import errors of another cause pass as they are.
    """
    try:
        yield
    except ImportError as error:
        line = install_line(error, what)
        if line is None:
            raise
        raise raising(line) from error
