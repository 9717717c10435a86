"""Players and result files of the judging commands.

Only this module uses `srl_train.players`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from srl_agents.policy import Policy
from srl_train.cli.notices import tell
from srl_train.cli.options import build_resolver, prepare_torch
from srl_train.player_names import PLAYERS, PlayerSpec, parse_player
from srl_train.players import Resolver
from srl_train.run_files import asked_for, write_whole

__all__ = ["PLAYERS", "NamedPlayers", "trained_policies", "with_interval", "write_results"]

MakeEnv = Callable[[], Any]


@dataclass(frozen=True)
class NamedPlayers:
    """Players named on a command line."""

    specs: Mapping[str, PlayerSpec]
    resolver: Resolver

    @classmethod
    def parse(cls, args: argparse.Namespace, names: Iterable[str]) -> NamedPlayers:
        """Return the players; raise ConfigError for an unknown name or impossible settings."""
        specs = {name: parse_player(name) for name in names}
        return cls(specs, build_resolver(args, list(specs.values())))

    def prepare(self, threads: int | None) -> None:
        """Set up torch if a player is a model in this process."""
        if any(spec.is_local_model for spec in self.specs.values()):
            prepare_torch(threads or 1)

    def by_agent(self, names: Mapping[str, str], make: MakeEnv) -> dict[str, Policy]:
        """Return a policy per agent, from a player's name per agent."""
        specs = {agent: self.specs[name] for agent, name in names.items()}
        return self.resolver.by_agent(specs, make)

    def policies(self, name: str, make: MakeEnv, agents: Iterable[str]) -> list[Policy]:
        """Return the policies of a player: one, or one per model of a run."""
        return self.resolver.policies(self.specs[name], make, agents)

    def record(self, name: str) -> dict[str, Any]:
        """Return the player's name, kind and sampling settings as plain data."""
        return {"name": name, **self.resolver.record(self.specs[name])}


def trained_policies(
    folder: Path, device: str | None, agents: Iterable[str], make: MakeEnv
) -> dict[str, Policy]:
    """Return the models of a run of this process, dealt to the agents."""
    resolver = Resolver(device=device or "auto", trusted=True)
    return resolver.by_agent(dict.fromkeys(agents, parse_player(str(folder))), make)


def write_results(path: Path, record: Mapping[str, Any], *, quiet: bool = False) -> None:
    """Write the results as JSON to the path of --out."""
    with asked_for("--out", path):
        write_whole(path, json.dumps(record, indent=1) + "\n")
    if not quiet:
        tell(f"written: {path}")


def with_interval(value: float, interval: Sequence[float] | None, form: str = ".3f") -> str:
    """Return the value and its interval as text, with numbers in a format such as ".1%"."""
    if interval is None:
        return f"{value:{form}}"
    low, high = interval
    return f"{value:{form}} ({low:{form}} to {high:{form}})"
