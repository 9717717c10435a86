"""Assignment of agents to players, and a configuration's names checked without loading a model."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from srl_agents.errors import PolicyError
from srl_agents.rollout.matchmaking import Matchmaking
from srl_agents.scripted.registry import classic_policy, is_scripted
from srl_train.environment import build_env
from srl_train.errors import ConfigError
from srl_train.players.holdout import refuse_partners
from srl_train.players.player_spec import base_named

if TYPE_CHECKING:
    from srl_train.config.run import RunConfig


def matchmaking_of(config: RunConfig, env: Any) -> Matchmaking:
    """Who plays which agents; raises ConfigError for an agent or player that is not there, for
    policies that are kept for evaluation, and for models that cannot be dealt or drawn so."""
    known = (*config.models.names, *config.models.frozen_models, *config.opponent_pools)
    refuse_partners(config.seats, known, env)
    own = config.matchmaking
    try:
        return Matchmaking(
            env.possible_agents,
            config.models.names,
            config.seats,
            own.name,
            seed=config.seed,
        )
    except ValueError as error:
        raise ConfigError(f"seats: {error}") from error
    except ImportError as error:
        raise ConfigError(f"matchmaking.name: got 'rating': {error}") from error


def refuse_wrong_names(config: RunConfig) -> None:
    """Raise ConfigError for a base, agent or player that is not there, before torch is loaded.

    Scripted policies are constructed, so that errors of the user's own classes appear here too.
    """
    for base in config.models.bases.values():
        base_named("models.base", base)
    for name, base in config.models.frozen_models.items():
        base_named(f"models.frozen_models.{name}", base)
    with closing(build_env(config)) as env:
        matchmaking_of(config, env)
        for who in filter(is_scripted, sorted(set(config.seats.values()))):
            try:
                classic_policy(who, env)
            except PolicyError as error:
                raise ConfigError(f"seats: {error}") from error
