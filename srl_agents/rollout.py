"""Rollouts: episodes of environments played by policies, many episodes concurrently.

Every episode is a coroutine. Requests to the same language model are answered in one batch.
Scripted policies decide at once, and episodes among them need no event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypedDict, TypeVar, Unpack

import numpy as np

from srl_agents.episode import AgentStep, Decision, End, Episode
from srl_agents.errors import BackendError, EpisodeTimeout
from srl_agents.evaluation.progress import LongWork
from srl_agents.event_loop import finished, run, together
from srl_agents.policy import AgentObservation, Closing, Policy, StartsTogether, waits
from srl_agents.seeding import of_agents
from srl_envs.errors import EnvError
from srl_envs.records import is_plain
from srl_envs.text import TO_MOVE, TextAction

SpeaksFirst = Mapping[str, Collection[str]]
"""Leader -> the agents that hear its words before they decide."""
ALL_AT_ONCE: SpeaksFirst = MappingProxyType({})
Messages = tuple[tuple[str, str], ...]
Spectator = Callable[[Episode, bool], None]
"""Callback with the record so far and True at the end: called at the start and after each step."""


@dataclass
class Game:
    """One running episode."""

    env: Any
    seats: Mapping[str, Policy]
    seed: int
    policy_seed: int
    speaks_first: SpeaksFirst
    reset_options: dict[str, Any] | None = None
    given_names: Mapping[str, str] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    states: list[np.ndarray] | None = None
    at_turn: Callable[[int], None] = lambda turn: None
    spectator: Spectator | None = None
    observations: dict[str, Any] = field(default_factory=dict)
    infos: dict[str, Any] = field(default_factory=dict)
    memories: dict[str, Any] = field(default_factory=dict)
    turns: list[tuple[AgentStep, ...]] = field(default_factory=list)
    failure: str | None = None
    ends: dict[str, End] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.waiting = {agent: policy for agent, policy in self.seats.items() if waits(policy)}

    async def play(self) -> Episode:
        try:
            self.begin()
            self.show()
            await self.go_on()
        except (BackendError, EnvError) as error:
            self.failure = f"{type(error).__name__}: {error}"
        finally:
            self.leave()
        self.show(over=True)
        return self.episode()

    async def go_on(self) -> None:
        """Play from the current state to the end."""
        while self.env.agents:
            decisions: dict[str, Decision] = {}
            if self.speaks_first:
                await self.ask(decisions, leaders=True)
            await self.ask(decisions, leaders=False)
            self.advance(decisions)
            self.at_turn(len(self.turns))
            self.show()

    def leave(self) -> None:
        """Release the memories of policies that wait."""
        for agent, memory in self.memories.items():
            if agent in self.waiting:
                self.waiting[agent].leave(memory)

    def show(self, *, over: bool = False) -> None:
        if self.spectator is not None:
            self.spectator(self.episode(), over)

    def begin(self) -> None:
        """Reset the environment and start the policies."""
        agents = self.env.possible_agents
        vacant = sorted(set(agents) - set(self.seats))
        if vacant:
            raise ValueError(f"no policy for agent(s) {vacant}: name one for each in `seats`")
        self.observations, self.infos = self.env.reset(seed=self.seed, options=self.reset_options)
        seeds = dict(zip(agents, of_agents(self.policy_seed, len(agents)), strict=True))
        self.memories = started({agent: self.seats[agent] for agent in agents}, seeds)

    async def ask(self, decisions: dict[str, Decision], *, leaders: bool) -> None:
        """Add the decisions of the leaders, or of all other agents."""
        seen: dict[str, AgentObservation] = {}
        for agent in self.env.agents:
            if (agent in self.speaks_first) is leaders:
                forced = self.without_say(agent)
                if forced is not None:
                    decisions[agent] = forced
                else:
                    seen[agent] = self.see(agent, messages_to(agent, decisions, self.speaks_first))
        answers = await asked(self.seats, seen, self.memories)
        for agent, (decision, memory) in answers.items():
            decisions[agent], self.memories[agent] = decision, memory

    def without_say(self, agent: str) -> Decision | None:
        """Return the only legal action of an agent that is not to move, else None."""
        info = self.infos.get(agent, {})
        mask = info.get("action_mask")
        if info.get(TO_MOVE, True) or mask is None or np.count_nonzero(mask) != 1:
            return None
        return Decision(int(np.argmax(mask)), asked=False)

    def see(self, agent: str, messages: Messages) -> AgentObservation:
        mask = self.infos.get(agent, {}).get("action_mask")
        return AgentObservation(agent, self.observations[agent], mask, messages)

    def advance(self, decisions: Mapping[str, Decision]) -> None:
        before, state = self.observations, self.state()
        self.observations, rewards, terminations, truncations, self.infos = self.env.step(
            {agent: played_action(decision) for agent, decision in decisions.items()}
        )
        for agent in decisions:
            cut = is_truncated(terminations, truncations, agent)
            if cut is not None:
                self.ends[agent] = self.cut_off(agent) if cut else End(False)
        if self.states is not None and state is not None:
            self.states.append(state)
        self.turns.append(
            tuple(
                AgentStep(
                    agent,
                    before[agent],
                    decision,
                    float(rewards[agent]),
                    {k: v for k, v in self.infos[agent].items() if k != "action_mask"},
                    messages_to(agent, decisions, self.speaks_first),
                )
                for agent, decision in decisions.items()
            )
        )

    def state(self) -> np.ndarray | None:
        return None if self.states is None else np.asarray(self.env.state(), np.float32).ravel()

    def cut_off(self, agent: str) -> End:
        seen, policy = self.see(agent, ()), self.seats[agent]
        ids = None
        if isinstance(policy, Closing):
            ids = policy.closing(seen, self.memories[agent])
        return End(True, seen.observation, ids, None if ids is None else self.state())

    def episode(self) -> Episode:
        return Episode(
            environment=self.env.metadata["name"],
            seed=self.seed,
            seats={
                agent: self.given_names.get(agent) or policy_name(self.seats[agent])
                for agent in self.env.possible_agents
            },
            turns=tuple(self.turns),
            failure=self.failure,
            extra=self.extra,
            made_as=_made_as(self.env),
            reset_options=self.reset_options or {},
            states=None if self.states is None else tuple(self.states),
            ends=self.ends,
        )


def started(policies: Mapping[str, Policy], seeds: Mapping[str, int]) -> dict[str, Any]:
    """Return the initial memory of each agent in `policies`."""
    memories: dict[str, Any] = {}
    for agent, policy in policies.items():
        if not isinstance(policy, StartsTogether):
            memories[agent] = policy.start(seeds[agent])
        elif agent not in memories:
            own = [other for other, one in policies.items() if one is policy]
            begun = policy.start_together([seeds[other] for other in own])
            memories |= zip(own, begun, strict=True)
    return memories


async def asked(
    policies: Mapping[str, Policy],
    seen: Mapping[str, AgentObservation],
    memories: Mapping[str, Any],
) -> dict[str, tuple[Decision, Any]]:
    """Return decision and new memory of each agent in `seen`, with one call per policy."""
    groups: dict[int, list[str]] = {}
    for agent in seen:
        groups.setdefault(id(policies[agent]), []).append(agent)

    def shown(agents: Sequence[str]) -> tuple[list[AgentObservation], list[Any]]:
        return [seen[agent] for agent in agents], [memories[agent] for agent in agents]

    of_groups = [(policies[own[0]], own) for own in groups.values()]
    answers: dict[int, Any] = {id(p): p.act(*shown(own)) for p, own in of_groups if not waits(p)}
    calls = {id(p): p.act(*shown(own)) for p, own in of_groups if waits(p)}
    answers |= zip(calls, await together(*calls.values()), strict=True)
    return {
        agent: (decision, memory)
        for key, own in groups.items()
        for agent, decision, memory in zip(own, *answers[key], strict=True)
    }


def messages_to(agent: str, said: Mapping[str, Decision], speaks_first: SpeaksFirst) -> Messages:
    """Return the (speaker, words) pairs that an agent reads before it decides."""
    heard = (
        (leader, said[leader])
        for leader, hearers in speaks_first.items()
        if agent in hearers and leader in said
    )
    return tuple(
        (leader, str(one.action) if one.text is None else one.text)
        for leader, one in heard
        if one.asked
    )


def played_action(decision: Decision) -> Any:
    """Return the action, with the text it was parsed from if there is one."""
    if decision.text is None or type(decision.action) is not int:
        return decision.action
    return TextAction(decision.action, decision.text)


def is_truncated(
    terminations: Mapping[str, Any], truncations: Mapping[str, Any], agent: str
) -> bool | None:
    """Return True for a truncated agent, False for a terminated one, None for one in play."""
    if terminations.get(agent):
        return False
    return True if truncations.get(agent) else None


def _made_as(env: Any) -> Mapping[str, Any] | None:
    # `made_as` of a wrapped environment does not count.
    made: Mapping[str, Any] | None = getattr(env, "__dict__", {}).get("made_as")
    return made if made is not None and is_plain(made) else None


def policy_name(policy: Policy) -> str:
    """Return the name of a policy in records: its `name`, or its class name."""
    return str(getattr(policy, "name", type(policy).__name__))


T = TypeVar("T")
MakeGame = Callable[..., Game]
Seats = Mapping[str, Policy] | Sequence[Mapping[str, Policy]]
"""Agent -> policy, of all episodes, or of each."""


class PlaySettings(TypedDict, total=False):
    """Settings of `play_many`."""

    policy_seeds: Sequence[int] | None
    """Seeds of the policies per episode; by default the environment's seeds."""
    speaks_first: SpeaksFirst
    """Leaders decide before the agents that read their words in the same step."""
    reset_options: Sequence[Mapping[str, Any]] | None
    """Options of the environment's reset, per episode."""
    names: Mapping[str, str] | Sequence[Mapping[str, str]] | None
    """Agent -> name in records, of all episodes or of each; by default the policy's `name`."""
    extra: Mapping[str, Any] | None
    """Plain data that is added to each episode."""
    record_states: bool
    """Record the environment's state() before each step."""
    timeout: float | None
    """Seconds for all episodes together; None has no limit."""
    in_flight: int | asyncio.Semaphore | None
    """Limit of concurrent episodes; a semaphore limits several calls together."""
    spectator: Spectator | None
    """Spectator of the first episode."""
    make_game: MakeGame | None
    """Constructor of the games; by default Game."""


def play(
    env: Any,
    seats: Mapping[str, Policy],
    seed: int,
    *,
    policy_seed: int | None = None,
    speaks_first: SpeaksFirst = ALL_AT_ONCE,
    at_turn: Callable[[int], None] = lambda turn: None,
) -> Episode:
    """Play one episode of `env` from `reset(seed)` without closing it, as in `play_many`.

    `at_turn` receives the number of steps after every step. Its exceptions end the episode.
    """
    policy_seed = seed if policy_seed is None else policy_seed
    game = Game(env, seats, seed, policy_seed, speaks_first, at_turn=at_turn)
    return _from_sync(game.play(), _waits([seats]))


def play_many(
    make_env: Callable[[], Any],
    seats: Seats,
    seeds: Sequence[int],
    **settings: Unpack[PlaySettings],
) -> list[Episode]:
    """Play one episode per seed and return the episodes in order.

    Every environment is closed at the end. A BackendError or EnvError ends only its own episode,
    whose `failure` is set. Inside a running event loop, as in a notebook, the loop is blocked
    meanwhile. Raises ValueError if an agent has no policy, and EpisodeTimeout after `timeout`
    seconds.
    """
    waiting = _waits(_by_episode(seats, len(seeds)))
    return _from_sync(play_many_async(make_env, seats, seeds, **settings), waiting)


async def play_many_async(
    make_env: Callable[[], Any],
    seats: Seats,
    seeds: Sequence[int],
    **settings: Unpack[PlaySettings],
) -> list[Episode]:
    """Play as `play_many` does; cancellation closes the environments."""
    policy_seeds, options = settings.get("policy_seeds"), settings.get("reset_options")
    in_flight = settings.get("in_flight")
    if isinstance(in_flight, int) and in_flight < 1:
        raise ValueError(f"in_flight is {in_flight}: give 1 or more, or None for all at once")
    names = _by_episode(settings.get("names") or {}, len(seeds))
    seated = _by_episode(seats, len(seeds))
    make_game = settings.get("make_game") or Game
    work, over = LongWork(f"playing {len(seeds)} episodes"), 0

    async def one(index: int) -> Episode:
        nonlocal over
        env = make_env()
        try:
            game = make_game(
                env,
                seated[index],
                seeds[index],
                seeds[index] if policy_seeds is None else policy_seeds[index],
                settings.get("speaks_first", ALL_AT_ONCE),
                reset_options=None if options is None else dict(options[index]),
                given_names=names[index],
                extra=dict(settings.get("extra") or {}),
                states=[] if settings.get("record_states") else None,
                at_turn=lambda turn: work.at(f"step {turn}, {over} of {len(seeds)} complete"),
                spectator=settings.get("spectator") if index == 0 else None,
            )
            return await game.play()
        finally:
            env.close()
            over += 1

    if not _waits(seated):
        return [await one(index) for index in range(len(seeds))]
    if not isinstance(in_flight, asyncio.Semaphore):
        in_flight = asyncio.Semaphore(in_flight or max(1, len(seeds)))

    async def bounded(index: int) -> Episode:
        async with in_flight:
            return await one(index)

    episodes = [asyncio.create_task(bounded(index)) for index in range(len(seeds))]
    seconds = settings.get("timeout")
    try:
        async with asyncio.timeout(seconds) as limit:
            return await asyncio.gather(*episodes)
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise EpisodeTimeout(
            f"Episode timeout: {len(seeds)} games were not all over after {seconds:g} seconds; "
            "raise rollout.timeout (episode_timeout of MultiModelConfig), or play less"
        ) from error
    finally:
        for episode in episodes:
            episode.cancel()
        await asyncio.gather(*episodes, return_exceptions=True)


def _by_episode(
    given: Mapping[str, T] | Sequence[Mapping[str, T]], count: int
) -> Sequence[Mapping[str, T]]:
    return [given] * count if isinstance(given, Mapping) else given


def _waits(seated: Iterable[Mapping[str, Policy]]) -> bool:
    return any(waits(policy) for seats in seated for policy in seats.values())


def _from_sync(coroutine: Coroutine[Any, Any, T], waiting: bool) -> T:
    return run(coroutine) if waiting else finished(coroutine)
