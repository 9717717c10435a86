"""Players and result files of the judging commands."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from srl_agents.policy import Policy
from srl_train.cli.notices import tell
from srl_train.cli.options import prepare_torch
from srl_train.player_names import PlayerSpec, parse_player
from srl_train.players import Resolver
from srl_train.run_files import asked_for, write_whole

MakeEnv = Callable[[], Any]


@dataclass(frozen=True)
class NamedPlayers:
    """Players named on a command line, and the resolver that builds their policies."""

    specs: Mapping[str, PlayerSpec]
    """Name -> parsed player."""
    resolver: Resolver

    @classmethod
    def parse(cls, args: argparse.Namespace, names: Iterable[str]) -> NamedPlayers:
        """Return the players `names` with `args`' model settings (`add_model_settings`).

        Raises ConfigError if one is invalid, and UntrustedError if a run requires --trust.
        """
        specs = {name: parse_player(name) for name in names}
        overrides = {
            "temperature": args.temperature,
            "max_new_tokens": args.max_new_tokens,
            "constrained": args.constrained,
            "device": args.device or "auto",
        }
        resolver = Resolver(overrides=overrides, trusted=args.trust)
        for spec in specs.values():
            if spec.sources:
                resolver.settings_of(spec)
        return cls(specs, resolver)

    def prepare(self, threads: int | None) -> None:
        """Set up torch with CPU `threads` (None: 1) if a player is a model in this process."""
        if any(spec.sources and spec.kind != "api" for spec in self.specs.values()):
            prepare_torch(threads or 1)

    def by_agent(self, names: Mapping[str, str], make: MakeEnv) -> dict[str, Policy]:
        """Return agent -> policy of player `names[agent]`; a run's models are assigned in turn."""
        specs = {agent: self.specs[name] for agent, name in names.items()}
        return self.resolver.by_agent(specs, make)

    def policies(self, name: str, make: MakeEnv, agents: Iterable[str]) -> list[Policy]:
        """Return policies of player `name` for `agents`: one, or one per model of a run."""
        return self.resolver.policies(self.specs[name], make, agents)

    def record(self, name: str) -> dict[str, Any]:
        """Return "name", "kind" and a model's settings; requires `policies` before for an API."""
        return {"name": name, **self.resolver.record(self.specs[name])}


def write_results(path: Path, record: Mapping[str, Any], *, quiet: bool = False) -> None:
    """Write a record as JSON, and print `path` unless `quiet`; ConfigError if writing fails."""
    with asked_for("--out", path):
        write_whole(path, json.dumps(record, indent=1) + "\n")
    if not quiet:
        tell(f"written: {path}")


def with_interval(value: float, interval: Sequence[float] | None, form: str = ".3f") -> str:
    """Return '0.500 (0.400 to 0.600)': a value, and its interval if any, in the format `form`."""
    if interval is None:
        return f"{value:{form}}"
    low, high = interval
    return f"{value:{form}} ({low:{form}} to {high:{form}})"
