"""`srl schema`: JSON Schema of a run configuration, for editors."""

from __future__ import annotations

import argparse
import json
from typing import Any

from srl_train.cli.notices import tell


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""


def run(args: argparse.Namespace) -> int:
    """Print the JSON Schema to stdout and return 0."""
    tell(json.dumps(schema(), indent=2))
    return 0


def schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a configuration file as nested plain data."""
    from srl_train.config.run import RunConfig

    tree: dict[str, Any] = _any_of(RunConfig.model_json_schema())
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **tree}


def _any_of(tree: Any) -> Any:
    """Return a copy with anyOf for oneOf and no discriminators, which sections may leave out."""
    if isinstance(tree, dict):
        return {
            {"oneOf": "anyOf"}.get(key, key): _any_of(value)
            for key, value in tree.items()
            if key != "discriminator"
        }
    return [_any_of(one) for one in tree] if isinstance(tree, list) else tree
