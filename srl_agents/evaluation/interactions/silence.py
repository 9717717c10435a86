"""Causal influence of words on the hearer's action, by asking it again without them.

In each turn in which an agent heard a speaker, a copy of its policy's memory, its random numbers
included, is asked what it does where these words are taken out of its observation. As in social
influence (Jaques et al. 2019) and the causal influence of communication (Lowe et al. 2019, sec. 4),
the counterfactual is the hearer's own; the effect is counted in changed actions, the other way to
measure a change of a policy of which only samples are known.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from srl_agents.episode import Decision
from srl_agents.evaluation.interactions.graph import MEASURES, Graph, Pair, mean_edges
from srl_agents.policy import AgentObservation, Policy, waits
from srl_agents.rollout import ALL_AT_ONCE, SpeaksFirst, play_many, policy_name
from srl_agents.seeding import of_agents
from srl_envs.games.cheap_talk import SAYS, spoken
from srl_envs.text import TextView


def heeded(
    make_env: Callable[[], Any],
    players: Mapping[str, Policy],
    seeds: Sequence[int],
    *,
    names: Mapping[str, str] | None = None,
    speaks_first: SpeaksFirst = ALL_AT_ONCE,
    reset_options: Sequence[Mapping[str, Any]] | None = None,
) -> Graph:
    """Who acted on whose words, in games that are played for it, one per entry of `seeds`.

    An edge's value is the share of the turns in which the target heard the source, and would have
    acted otherwise had it not. `players` and what follows is as in srl_agents.rollout.play_many;
    players' memories are deep-copied. Every message heard costs one more decision. Failed games
    count nowhere.
    """
    with closing(make_env()) as env:
        agents, view = list(env.possible_agents), env.unwrapped.text_view
    probes = {id(policy): _Probe(policy, view) for policy in players.values()}
    episodes = play_many(
        make_env,
        {agent: probes[id(policy)] for agent, policy in players.items()},
        seeds,
        names=names,
        speaks_first=speaks_first,
        reset_options=reset_options,
    )
    found: list[tuple[int, Pair, float]] = []
    for number, episode in enumerate(episodes):
        if episode.failure is not None:
            continue
        for agent, own in zip(agents, of_agents(seeds[number], len(agents)), strict=True):
            for speaker, changed in probes[id(players[agent])].changes.get(own, ()):
                pair = episode.seats[speaker], episode.seats[agent]
                found.append((number, pair, float(changed)))
    heard_of = {name for episode in episodes for name in episode.seats.values()}
    return Graph(MEASURES["heeded"], tuple(sorted(heard_of)), mean_edges(found, seed=0))


@dataclass(frozen=True)
class _Memory:
    """The policy's own, and the seed that says whose it is."""

    seed: int
    own: Any


class _Probe:
    """A policy that is also asked what it would do without each speaker's words."""

    def __init__(self, policy: Policy, view: TextView) -> None:
        self.name = policy_name(policy)
        self._policy, self._view = policy, view
        self.changes: dict[int, list[tuple[str, bool]]] = {}
        """Seed of an agent's memory -> (speaker, whether the action was another), turn by turn."""

    def start(self, seed: int) -> _Memory:
        """The policy's memory."""
        self.changes[seed] = []
        return _Memory(seed, self._policy.start(seed))

    async def act(
        self, seen: Sequence[AgentObservation], states: Sequence[_Memory]
    ) -> tuple[list[Decision], list[_Memory]]:
        """The policy's decisions."""
        silenced = self._silenced(seen, states)
        instead, _ = await self._decided([s[2] for s in silenced], [s[3] for s in silenced])
        decisions, own = await self._decided(seen, [state.own for state in states])
        for (place, speaker, *_), other in zip(silenced, instead, strict=True):
            changed = not np.array_equal(other.action, decisions[place].action)
            self.changes[states[place].seed].append((speaker, changed))
        return decisions, [replace(s, own=one) for s, one in zip(states, own, strict=True)]

    def leave(self, state: _Memory) -> None:
        """The episode is over."""
        if waits(self._policy):
            self._policy.leave(state.own)

    def _silenced(
        self, seen: Sequence[AgentObservation], memories: Sequence[_Memory]
    ) -> list[tuple[int, str, AgentObservation, Any]]:
        """(place in `seen`, speaker, what is seen without its words, a copy of the memory)."""
        return [
            (place, speaker, without(one, speaker, self._view), copy.deepcopy(memory.own))
            for place, (one, memory) in enumerate(zip(seen, memories, strict=True))
            for speaker in dict([*spoken(one.observation), *one.messages])
        ]

    async def _decided(
        self, seen: Sequence[AgentObservation], memories: Sequence[Any]
    ) -> tuple[list[Decision], list[Any]]:
        if not seen:
            return [], []
        if waits(self._policy):
            return await self._policy.act(seen, memories)
        return self._policy.act(seen, memories)


def without(seen: AgentObservation, speaker: str, view: TextView) -> AgentObservation:
    """What an agent would see had the speaker said nothing."""
    observation = seen.observation
    if isinstance(observation, Mapping) and "messages" in observation:
        lines = str(observation["messages"]).splitlines()
        kept = "\n".join(line for line in lines if not line.startswith(f"{speaker}{SAYS}"))
        observation = {**observation, "messages": kept}
        observation["text"] = view.describe(seen.agent, observation)
    messages = tuple(message for message in seen.messages if message[0] != speaker)
    return replace(seen, observation=observation, messages=messages)
