"""Observations of single games: everything that interaction graphs are made of."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

from srl_agents import seeding
from srl_agents.episode import Episode
from srl_agents.errors import EpisodeError
from srl_agents.evaluation.interactions import deals as of_deals
from srl_agents.evaluation.interactions import influence
from srl_agents.evaluation.interactions.correlation import Rewards
from srl_agents.evaluation.interactions.graph import Pair
from srl_agents.evaluation.interactions.listening import Heard, heard_in
from srl_agents.evaluation.replay import remade
from srl_envs.errors import EnvError

MOST_AGENTS = 32
LARGEST = 1e100
"""Of rewards; what is beyond, or no number, counts nowhere."""


@dataclass(frozen=True)
class Observed:
    """What one game shows of who did what to whom, by agents."""

    players: Mapping[str, str]
    """Agent -> who played it."""
    rewards: Rewards
    heard: Mapping[Pair, tuple[Heard, ...]]
    effects: Mapping[Pair, float] | None
    """None where the game could not be played again."""
    deals: of_deals.Deals | None
    """None also where the game has no deals to make."""
    not_replayed: str | None
    """Why it could not be."""


def observe(episode: Episode, seed: int = 0, *, trusted: bool = False) -> Observed:
    """One game, played again from its record where that can be.

    A record is anybody's unless it is `trusted` (see srl_agents.evaluation.replay.remade). Raises
    EpisodeError for a failed episode, for one of more agents than MOST_AGENTS, and for a record
    with moves of agents that nobody played.
    """
    if episode.failure is not None:
        raise EpisodeError(f"the episode failed ({episode.failure:.200}): leave it out")
    agents = episode.seats.keys()
    if len(agents) > MOST_AGENTS:
        raise EpisodeError(f"the episode has {len(agents)} agents: give at most {MOST_AGENTS}")
    rewards: dict[str, dict[int, float]] = {agent: {} for agent in agents}
    for number, turn in enumerate(episode.turns):
        for step in turn:
            if step.agent not in rewards:
                raise EpisodeError(f"the record has a move of {step.agent!r}, whom nobody played")
            if abs(step.reward) <= LARGEST:  # a record may hold anything
                rewards[step.agent][number] = step.reward
    effects, made, why = None, None, None
    if len(episode.seats) > 1:
        rng = seeding.generator(seed, "interactions")
        try:
            with closing(remade(episode, None, trusted=trusted)) as env:
                made = of_deals.deals(episode, env)
                effects = influence.effects(episode, env, rng)
        except (EpisodeError, EnvError) as error:
            effects, made, why = None, None, str(error)
    return Observed(dict(episode.seats), rewards, heard_in(episode), effects, made, why)
