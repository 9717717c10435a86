"""Interactions between players, measured from episodes: influence, deals and listening."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from srl_agents import seeding
from srl_agents.episode import Episode
from srl_agents.errors import EpisodeError
from srl_agents.evaluation.interaction_graphs import (
    MEASURES,
    Edge,
    Floats,
    Graph,
    Pair,
    mean_edges,
)
from srl_agents.evaluation.replay import SAME, Turn, Watched, played_instead, remade, replay
from srl_envs.errors import EnvError
from srl_envs.games.bargaining import POINTS
from srl_envs.games.cheap_talk import spoken

Numbers = NDArray[np.int64]

MOST_AGENTS = 32
ALTERNATIVES = 3
"""Maximum number of other actions tried per step, drawn at random from the legal ones."""
TURNS = 12
"""Maximum number of turns per game with other actions, drawn at random."""
PERMUTATIONS = 20
"""Number of permutations of the games in the baseline of `information`."""
MOST_MESSAGES = 16
"""Number of different messages up to which whole messages are compared. Above it, the messages are
compared by the single most informative word, chosen again in each permutation."""
MOST_WORDS = 100
"""Number of words that are candidates, the most frequent ones."""
ABSENT = -1
"""Code of a turn that a game does not have."""


class Deals(NamedTuple):
    """Deals of one game, summed for each pair of agents."""

    traded: Mapping[Pair, float]
    """(giver, receiver) to the worth of deliveries in the receiver's values. In negotiations: (one
    party, other party) to the other's utility from the agreement above no deal."""
    broken: Mapping[Pair, float]
    """(debtor, creditor) to the number of missed deliveries; empty if agreements are binding."""


class Heard(NamedTuple):
    """Last words of a speaker ('' for silence) and the next action of the hearer."""

    turn: int
    words: str
    action: int


@dataclass(frozen=True)
class Observed:
    """Interactions of one game, by agents."""

    players: Mapping[str, str]
    """Agent to player."""
    heard: Mapping[Pair, tuple[Heard, ...]]
    effects: Mapping[Pair, float] | None
    """None if the game could not be played again."""
    deals: Deals | None
    """None also if the environment has no deals."""
    not_replayed: str | None
    """Reason why the game could not be played again."""


@dataclass(frozen=True)
class Interactions:
    """Graphs of several games."""

    graphs: tuple[Graph, ...]
    """Graphs of all measures with at least one edge, in the order of MEASURES."""
    games: int
    not_replayed: tuple[str, ...]
    """Different reasons why games could not be played again."""

    def graph(self, measure: str) -> Graph | None:
        """Return the graph of a measure, or None."""
        return next((graph for graph in self.graphs if graph.measure.name == measure), None)


def interactions(
    episodes: Iterable[Episode], seed: int = 0, *, trusted: bool = False
) -> Interactions:
    """Measure the interaction graphs of episodes; failed episodes are left out.

    Edges connect players: agents with the same player name count together. The same episodes and
    seed give the same numbers.

    Args:
        episodes: Episodes, played or read from records.
        seed: Seed of all random choices.
        trusted: Allow records to import the code that they name.
    """
    played = (episode for episode in episodes if episode.failure is None)
    return graphs([observe(episode, seed, trusted=trusted) for episode in played], seed)


def observe(episode: Episode, seed: int = 0, *, trusted: bool = False) -> Observed:
    """Return the interactions of one game, which is played again from its record if possible.

    Raises:
        EpisodeError: If the episode failed, has more than MOST_AGENTS agents, or has a step of an
            unknown agent.
    """
    if episode.failure is not None:
        raise EpisodeError(f"the episode failed ({episode.failure:.200}): leave it out")
    agents = episode.seats.keys()
    if len(agents) > MOST_AGENTS:
        raise EpisodeError(f"an episode may have at most {MOST_AGENTS} agents, got {len(agents)}")
    for step in chain.from_iterable(episode.turns):
        if step.agent not in agents:
            raise EpisodeError(f"the record has a step of the unknown agent {step.agent!r}")
    influence, made, reason = None, None, None
    if len(episode.seats) > 1:
        rng = seeding.generator(seed, "interactions")
        try:
            with closing(remade(episode, None, trusted=trusted)) as env:
                made = deals(episode, env)
                influence = effects(episode, env, rng)
        except (EpisodeError, EnvError) as error:
            influence, made, reason = None, None, str(error)
    return Observed(dict(episode.seats), heard_in(episode), influence, made, reason)


def graphs(games: Sequence[Observed], seed: int = 0) -> Interactions:
    """Return the graphs of games.

    Influence is measured if all games could be played again.
    """
    reasons = tuple(dict.fromkeys(game.not_replayed for game in games if game.not_replayed))
    edges: dict[str, tuple[Edge, ...]] = {}
    if not reasons:
        edges["influence"] = mean_edges(_by_players([g.effects for g in games], games), seed)
    for name in ("traded", "broken"):
        sums = [game.deals and getattr(game.deals, name) for game in games]
        edges[name] = mean_edges(_by_players(sums, games), seed)
    # Information is never negative, so an estimate below zero is compatible with zero.
    edges["listened"] = tuple(
        replace(edge, interval=(edge.interval[0], max(0.0, edge.interval[1])))
        if edge.interval
        else edge
        for edge in mean_edges(_listening(games, seed), seed)
    )
    players = tuple(sorted({name for game in games for name in game.players.values()}))
    return Interactions(
        tuple(Graph(MEASURES[name], players, edges[name]) for name in MEASURES if edges.get(name)),
        len(games),
        reasons,
    )


def _by_players(
    found: Iterable[Mapping[Pair, float] | None], games: Sequence[Observed]
) -> Iterator[tuple[int, Pair, float]]:
    for number, (game, own) in enumerate(zip(games, found, strict=True)):
        for (source, target), value in (own or {}).items():
            yield number, (game.players[source], game.players[target]), value


def deals(episode: Episode, env: Any) -> Deals | None:
    """Return the deals of a game, or None if the environment has none.

    Args:
        episode: The episode.
        env: Its environment, made again.

    Raises:
        EpisodeError: If the episode cannot be replayed.
    """
    if env.metadata["name"] == "social_trading_v0":
        return _deliveries(episode, env)
    if env.metadata["name"] == "social_negotiation_v0":
        return _agreement(episode, env)
    return None


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
            # The outcome of each agreement lists the offered goods first, then the requested ones.
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


def effects(episode: Episode, env: Any, rng: np.random.Generator) -> dict[Pair, float]:
    """Return the mean immediate effect of each agent's actions on each other agent's reward.

    The effect of agent i with action a on agent j in one turn is

        r_j(a, a_-i) - mean of r_j(a', a_-i) over i's other legal actions a'

    with the same actions of all others and the same chance events. The effect is a difference
    reward (Wolpert and Tumer 2002) with the baseline of COMA (Foerster et al. 2018, eq. 4). Turns
    with a single legal action are left out.

    Args:
        episode: The episode.
        env: Its environment, made again, which supports deep copies.
        rng: Generator that draws turns and actions.

    Raises:
        EpisodeError: If the episode cannot be replayed.
        EnvError: If the environment cannot be copied.
    """
    watched = Watched(env)
    count = len(episode.turns)
    tried = set(rng.choice(count, TURNS, replace=False).tolist() if count > TURNS else range(count))
    found: dict[Pair, list[float]] = {}
    shown = replay(episode, watched)
    for number, turn in enumerate(episode.turns):
        next(shown)  # Plays the previous turn and compares it with the record.
        if {step.agent for step in turn} != set(watched.agents):
            break  # The replay raises an error below.
        if number not in tried:
            continue
        for step in turn:
            others = watched.others(step) if step.decision.asked else []
            if len(others) > ALTERNATIVES:
                others = sorted(rng.choice(others, ALTERNATIVES, replace=False).tolist())
            if not others:
                continue
            instead = [_rewards(watched, turn, step.agent, action) for action in others]
            for other in turn:
                if other.agent != step.agent:
                    mean = sum(rewards[other.agent] for rewards in instead) / len(instead)
                    same = math.isclose(other.reward, mean, rel_tol=SAME, abs_tol=SAME)
                    effect = 0.0 if same else other.reward - mean
                    found.setdefault((step.agent, other.agent), []).append(effect)
    for _ in shown:
        pass
    return {pair: sum(own) / len(own) for pair, own in found.items()}


def _rewards(watched: Watched, turn: Turn, agent: str, action: int) -> dict[str, float]:
    [instead] = played_instead(watched, [turn], agent, action)
    return {step.agent: step.reward for step in instead}


def heard_in(episode: Episode) -> dict[Pair, tuple[Heard, ...]]:
    """Return the hearer's turns for each (speaker, hearer) with at least one message."""
    said: dict[str, list[tuple[int, Mapping[str, str], int]]] = {}
    for number, turn in enumerate(episode.turns):
        for step in turn:
            action = step.decision.action
            if step.decision.asked and isinstance(action, int | np.integer):
                words = dict([*spoken(step.observation), *step.messages])
                said.setdefault(step.agent, []).append((number, words, int(action)))
    found: dict[Pair, tuple[Heard, ...]] = {}
    for hearer, turns in said.items():
        speakers = {speaker for _, words, _ in turns for speaker in words if speaker != hearer}
        for speaker in sorted(speakers & set(episode.seats)):
            found[speaker, hearer] = tuple(
                Heard(number, " ".join(re.findall(r"\w+", words.get(speaker, "").casefold())), done)
                for number, words, done in turns
            )
    return found


def _listening(games: Sequence[Observed], seed: int) -> Iterator[tuple[int, Pair, float]]:
    """Yield bits turn by turn; games are permuted only within the same agents and players."""
    rng = seeding.generator(seed, "interactions")
    heard: dict[tuple[Pair, Pair], dict[int, tuple[Heard, ...]]] = {}
    for number, game in enumerate(games):
        for (source, target), turns in game.heard.items():
            players = game.players[source], game.players[target]
            heard.setdefault(((source, target), players), {})[number] = turns
    for (_, players), by_game in sorted(heard.items()):
        numbers = [number for number, turns in by_game.items() for _ in turns]
        bits = information(list(by_game.values()), rng).tolist()
        yield from ((number, players, own) for number, own in zip(numbers, bits, strict=False))


def information(games: Sequence[Sequence[Heard]], rng: np.random.Generator) -> Floats:
    """Return bits of information in the words of each turn about its action, minus a baseline.

    The mean of the bits is instantaneous coordination (Jaques et al. 2019, "Social Influence as
    Intrinsic Motivation for Multi-Agent Deep RL", sec. 5; Lowe et al. 2019, "On the Pitfalls of
    Measuring Emergent Communication", sec. 3), the mutual information

        I(M; A) = sum of p(m, a) log2( p(m, a) / (p(m) p(a)) )

    of message and next action, from counts. The estimate is biased for few games, and two players
    that follow a clock coordinate without a word. The baseline is the mean of the same estimate
    with the speaker's words of other games, at the same turns.

    Args:
        games: Turns of the hearer in each game.
        rng: Generator of the permutations.

    Returns:
        Bits in order of games and turns; empty for fewer than two games.
    """
    if len(games) < 2:
        return np.zeros(0)
    messages = sorted({one.words for own in games for one in own})
    turns = {turn: place for place, turn in enumerate(sorted({h.turn for g in games for h in g}))}
    kinds = {action: k for k, action in enumerate(sorted({h.action for g in games for h in g}))}
    numbers = {message: number for number, message in enumerate(messages)}
    said, done = (np.full((len(games), len(turns)), ABSENT) for _ in range(2))
    for place, own in enumerate(games):
        for one in own:
            said[place, turns[one.turn]] = numbers[one.words]
            done[place, turns[one.turn]] = kinds[one.action]
    there = done != ABSENT
    classes = _readings(messages, np.bincount(said[there], minlength=len(messages)))
    bits = _pointwise(classes, said[there], done[there])
    baseline = []
    for _ in range(PERMUTATIONS):
        order = rng.permutation(len(games))
        others = np.empty_like(said)
        others[order] = said[np.roll(order, 1)]  # Each game receives the words of another game.
        both = there & (others != ABSENT)
        joint = _joint(classes, others[both], done[both])
        baseline.append(_information(joint).max(initial=0.0))
    return bits - float(np.mean(baseline))


def _readings(messages: Sequence[str], counts: Numbers) -> Numbers:
    if len(messages) <= MOST_MESSAGES:
        return np.arange(len(messages))[:, None]
    words = [set(message.split()) for message in messages]
    total: dict[str, int] = {}
    for own, count in zip(words, counts.tolist(), strict=True):
        for word in own:
            total[word] = total.get(word, 0) + count
    frequent = sorted(total, key=lambda word: (-total[word], word))[:MOST_WORDS]
    return np.array([[int(word in own) for word in frequent] for own in words])


def _joint(classes: Numbers, said: Numbers, done: Numbers) -> Floats:
    read = classes[said]
    readings, kinds, actions = classes.shape[1], classes.max() + 1, done.max(initial=0) + 1
    flat = (np.arange(readings) * kinds + read) * actions + done[:, None]
    counts = np.bincount(flat.ravel(), minlength=readings * kinds * actions)
    joint: Floats = counts.reshape(readings, kinds, actions).astype(np.float64)
    return joint


def _information(joint: Floats) -> Floats:
    """Return bits of mutual information under each reading."""
    total = np.maximum(joint.sum(axis=(1, 2)), 1.0)
    own = _n_log_n(joint).sum(axis=(1, 2)) + _n_log_n(total)
    own -= _n_log_n(joint.sum(axis=2)).sum(axis=1) + _n_log_n(joint.sum(axis=1)).sum(axis=1)
    bits: Floats = own / total
    return bits


def _n_log_n(counts: Floats) -> Floats:
    found: Floats = counts * np.log2(np.maximum(counts, 1.0))
    return found


def _pointwise(classes: Numbers, said: Numbers, done: Numbers) -> Floats:
    """Return log2 p(m, a) / (p(m) p(a)) of each turn, under the most informative reading."""
    joint = _joint(classes, said, done)
    best = int(_information(joint).argmax())
    counts, read = joint[best], classes[said, best]
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    bits: Floats = np.log2(counts[read, done] / expected[read, done])
    return bits
