"""Collection of episodes as training data: players and filters."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

from srl_agents.episode import Episode
from srl_agents.errors import PolicyError
from srl_agents.evaluation.episode_stats import LONG_AFTER
from srl_agents.policy import Policy, waits
from srl_agents.rollout import ALL_AT_ONCE, SpeaksFirst, play_many
from srl_agents.scripted.registry import classic_policy, is_held_out
from srl_agents.scripted.registry import names as policy_names
from srl_agents.seeding import generator, of_games
from srl_envs import loading
from srl_envs.errors import UntrustedError
from srl_extensions.offline.data import KEPT, best_of, parts_of
from srl_train.config.run import RunConfig
from srl_train.errors import ConfigError
from srl_train.plan import InWords
from srl_train.player_names import ModelSettings, models_of_run, parse_player
from srl_train.players import Resolver, matchmaking_of


def scripted_player(name: str, env: Any) -> Policy:
    """Return the scripted policy of that name, with words for its actions.

    Raises:
        ConfigError: If the policy cannot play, or is reserved for evaluation.
    """
    if is_held_out(name):
        offered = ", ".join(policy_names(env, holdout=False))
        raise ConfigError(f"{name} is kept for evaluation (srl eval): give one of {offered}")
    try:
        policy = classic_policy(name, env)
        return policy if waits(policy) else InWords(policy, env.unwrapped.text_view)
    except PolicyError as error:
        raise ConfigError(str(error)) from error


def play_games(
    make_env: Callable[[], Any],
    policies: Mapping[str, Policy],
    games: int,
    seed: int,
    *,
    stage: int | None = None,
    group_size: int = 1,
    speaks_first: SpeaksFirst = ALL_AT_ONCE,
) -> list[Episode]:
    """Play `games` episodes, each group of `group_size` from one start; see `starts_of`."""
    env_seeds, policy_seeds, options = starts_of(games, seed, stage=stage, group_size=group_size)
    return play_many(
        make_env,
        policies,
        env_seeds,
        policy_seeds=policy_seeds,
        speaks_first=speaks_first,
        reset_options=options,
    )


def starts_of(
    games: int, seed: int, *, stage: int | None = None, group_size: int = 1
) -> tuple[list[int], list[int], list[dict[str, Any]]]:
    """Return the reset seeds, policy seeds and reset options of episodes to learn from.

    Each `stage` of training has separate starts. An environment that changes over training is in
    its last phase, as in evaluations.
    """
    rng = generator(seed, "collecting") if stage is None else generator(seed, "stage", stage)
    return *of_games(rng, games, group_size), [{"episode": LONG_AFTER}] * games


def filtered(
    episodes: Sequence[Episode],
    *,
    agents: Sequence[str] | None = None,
    min_return: float | None = None,
    top_fraction: float = 1.0,
) -> list[Episode]:
    """Return the episodes of which an agent is selected, with the selected agents in `extra`.

    Failed episodes are left out. `agents` limits the agents, `min_return` is the lowest raw return
    of an agent, and `top_fraction` is the share of the best episodes per start and agent.
    """
    played = [episode for episode in episodes if episode.failure is None]
    best = best_of(
        parts_of(played, agents),
        played,
        Episode.returns,
        min_return=min_return,
        top_fraction=top_fraction,
    )
    kept: dict[int, list[str]] = {}
    for index, agent in best:
        kept.setdefault(index, []).append(agent)
    return [
        episode
        if len(kept[index]) == len(episode.seats)
        else dataclasses.replace(episode, extra={**episode.extra, KEPT: kept[index]})
        for index, episode in enumerate(played)
        if index in kept
    ]


def build_policies(
    config: RunConfig,
    make_env: Callable[[], Any],
    wanted: Mapping[str, str],
    trained: Path | None = None,
    *,
    trusted: bool = False,
) -> dict[str, Policy]:
    """Return agent -> policy for all agents of the environment.

    `config` assigns all agents that `wanted` (agent to a player's name) does not. Its models play
    as in the run folder `trained`, or without it as their bases. Players outside the run that its
    configuration names are loaded only with `trusted`.

    Raises:
        ConfigError: If a player is unknown, a pool, or reserved for evaluation.
    """
    with closing(make_env()) as env:
        agents = env.possible_agents
        if unknown := set(wanted) - set(agents):
            raise ConfigError(f"no agent {min(unknown)!r}: the agents are {', '.join(agents)}")
        assigned = {} if set(wanted) == set(agents) else matchmaking_of(config, env).usual
    there = {} if trained is None else models_of_run(trained)
    bases = {**config.models.bases, **config.models.frozen_models}
    players = {}
    for agent in agents:
        name = assigned.get(agent, "")
        who, inside = wanted.get(agent), True
        if who is None and name in config.opponent_pools:
            raise ConfigError(
                f"{agent} is played by the pool {name!r}: use --players {agent}=WHO, such as "
                f"{agent}=CHECKPOINT:model_0"
            )
        if who is None:
            who = there.get(name) or bases.get(name, name)
            inside = trained is None or name in there
        try:
            with nullcontext() if inside or trusted else loading.closed():
                players[agent] = parse_player(who)
        except UntrustedError as error:
            if inside:
                raise
            raise ConfigError(
                f"{trained}/config.yaml gives {agent} to {who}, which is not in that run: use "
                f"--players {agent}=WHO, or --trust (trusted=True)"
            ) from error
    resolver = Resolver(
        ModelSettings.of(config.models),
        device=config.models.device,
        trusted=trusted,
        full_names=True,
        scripted=scripted_player,
    )
    return resolver.by_agent(players, make_env)
