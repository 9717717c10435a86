"""Deliveries, broken promises and agreements of trading and negotiation, from replayed games."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from srl_agents.episode import Episode
from srl_agents.evaluation.interactions.graph import Pair
from srl_agents.evaluation.replay import replay
from srl_envs.games.bargaining import POINTS


class Deals(NamedTuple):
    """Sums over one game, of every pair of agents."""

    traded: Mapping[Pair, float]
    """(giver, receiver) -> worth of what was delivered, in the receiver's own values; in
    negotiation (one party, another) -> what the agreement paid the other above no deal."""
    broken: Mapping[Pair, float]
    """(promised, was promised) -> deliveries owed and not made; empty where agreements bind."""


def deals(episode: Episode, env: Any) -> Deals | None:
    """The deals of a game, None where it has none to make; `env` is its environment made anew.

    Raises EpisodeError as `replay`.
    """
    of_game = _GAMES.get(env.metadata["name"])
    return None if of_game is None else of_game(episode, env)


def _deliveries(episode: Episode, env: Any) -> Deals:
    game = env.unwrapped
    agents = game.possible_agents
    pairs = [(one, other) for one in agents for other in agents if one != other]
    traded, broken = dict.fromkeys(pairs, 0.0), dict.fromkeys(pairs, 0.0)
    for _ in replay(episode, env):
        market = game.market
        for place, (receiver, giver, kept) in enumerate(market.outcome):
            pair = agents[giver], agents[receiver]
            if not kept:
                broken[pair] += 1.0
                continue
            # Of each agreement first what the one that offered gives, then what it wanted.
            offered = place % 2 == 0
            offer = market.offers[giver if offered else receiver]
            good, units = (
                (offer.give, offer.give_units) if offered else (offer.want, offer.want_units)
            )
            traded[pair] += float(market.values[receiver][good] * units)
    return Deals(traded, {} if game.rules.binding else broken)


def _agreement(episode: Episode, env: Any) -> Deals:
    for _ in replay(episode, env):
        pass
    game = env.unwrapped
    bargain, returns = game.bargain, episode.returns()
    gains = dict.fromkeys(game.possible_agents, 0.0)
    if bargain.agreed is not None:
        for agent, reservation in zip(game.possible_agents, bargain.reservations, strict=True):
            gains[agent] = returns[agent] - reservation / POINTS
    traded = {(one, other): gains[other] for one in gains for other in gains if one != other}
    return Deals(traded, {})


_GAMES: Mapping[str, Callable[[Episode, Any], Deals]] = {
    "social_trading_v0": _deliveries,
    "social_negotiation_v0": _agreement,
}
"""Environment's metadata name -> its deals."""
