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
from srl_extensions.offline.data import KEPT, best_of, parts_of
from srl_train.config.run import RunConfig
from srl_train.errors import ConfigError
from srl_train.plan import InWords
from srl_train.player_names import ModelSettings, models_of_run, parse_player
from srl_train.players import Resolver, matchmaking_of


def scripted_player(name: str, env: Any) -> Policy:
    """Return the scripted or MODULE:CLASS policy `name`, which also records its actions as text.

    An asynchronous policy is returned unchanged. Raises ConfigError if the policy is unknown,
    cannot play `env`, or is reserved for evaluation.
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
    """Play and return episodes to learn from, in order; failed ones have `failure` set.

    Each reset has the option "episode", which selects the last phase of an environment that
    changes over training.

    Args:
        make_env: Constructor of the environment.
        policies: Agent -> policy, for all agents.
        games: Number of episodes.
        seed: Seed of all randomness.
        stage: Index of the training stage, None outside of training; each has separate seeds.
        group_size: Number of consecutive episodes from the same start; the last may have fewer.
        speaks_first: Leader -> agents that read the leader's message before they act.
    """
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
    """Return the reset seeds, policy seeds and reset options, one per episode, of `play_games`.

    The arguments are those of `play_games`.
    """
    rng = generator(seed, "collecting") if stage is None else generator(seed, "stage", stage)
    return *of_games(rng, games, group_size), [{"episode": LONG_AFTER}] * games


def filtered(
    episodes: Sequence[Episode], *, min_return: float | None = None, top_fraction: float = 1.0
) -> list[Episode]:
    """Return the episodes in which at least one agent's return is selected.

    If some agents of an episode are not selected, the result has a copy of the episode, whose
    `extra["kept_agents"]` lists the selected agents. Agents without decisions are never selected.

    Args:
        episodes: Episodes; failed ones are left out.
        min_return: Lowest raw return of a selected agent; None for no limit.
        top_fraction: Fraction to select of the agents with `min_return`, the best first, per start
            (environment and seed) and agent, rounded up.

    Raises:
        DataError: If `top_fraction` is below 1 and no agent has several episodes from one start.
    """
    played = [episode for episode in episodes if episode.failure is None]
    best = best_of(
        parts_of(played),
        played,
        Episode.returns,
        min_return=min_return,
        top_fraction=top_fraction,
    )
    kept: dict[int, list[str]] = {}
    for index, agent in best:
        kept.setdefault(index, []).append(agent)
    return [
        played[index]
        if len(agents) == len(played[index].seats)
        else dataclasses.replace(played[index], extra={**played[index].extra, KEPT: agents})
        for index, agents in kept.items()
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

    Args:
        config: Configuration, which assigns the agents that `wanted` does not contain.
        make_env: Constructor of the environment.
        wanted: Agent -> name of a player, as in `srl eval`.
        trained: Folder of the run whose models play; None plays with the base models.
        trusted: Allow players outside the run folder that its configuration names.

    Raises:
        ConfigError: If an agent is unknown, or if its player is unknown, an opponent pool, reserved
            for evaluation, or cannot play.
        UntrustedError: If the run `trained` is not trusted, and names code, files or an API model.
    """
    with closing(make_env()) as env:
        agents = env.possible_agents
        if unknown := set(wanted) - set(agents):
            raise ConfigError(f"no agent {min(unknown)!r}: the agents are {', '.join(agents)}")
        assigned = {} if set(wanted) == set(agents) else matchmaking_of(config, env).usual
    there = {} if trained is None else models_of_run(trained)
    known = {**config.models.bases, **config.models.frozen_models, **there}
    players = {}
    for agent in agents:
        name = assigned.get(agent, "")
        if agent not in wanted and name in config.opponent_pools:
            raise ConfigError(
                f"{agent} is played by the pool {name!r}: use --players {agent}=WHO, such as "
                f"{agent}=CHECKPOINT:model_0"
            )
        allowed = trusted or trained is None or agent in wanted or name in there
        with nullcontext() if allowed else loading.closed():
            players[agent] = parse_player(wanted.get(agent) or known.get(name, name))
    resolver = Resolver(
        ModelSettings.of(config.models),
        {"device": config.models.device},
        trusted=trusted,
        full_names=True,
        scripted=scripted_player,
    )
    return resolver.by_agent(players, make_env)
