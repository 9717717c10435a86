"""Optional dependencies: which extra installs a missing package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
    "grpc_reflection": "grpc",
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


def pip_line(extra: str) -> str:
    """The line that installs an extra."""
    return f'pip install "core-srl[{extra}]"'


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
