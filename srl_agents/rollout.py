"""Rollouts: episodes of environments played by policies, many episodes concurrently.

Every episode is a coroutine. Concurrent requests to the same language model form one batch.
Scripted policies decide at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import Any, TypedDict, TypeVar, Unpack

import numpy as np

from srl_agents.episode import AgentStep, Decision, End, Episode
from srl_agents.errors import BackendError, EpisodeTimeout
from srl_agents.evaluation.progress import LongWork
from srl_agents.event_loop import Batcher, run, together
from srl_agents.policy import AgentObservation, Closing, Policy, waits
from srl_agents.seeding import of_agents
from srl_envs.errors import EnvError
from srl_envs.records import is_plain
from srl_envs.text import TO_MOVE, TextAction, only_action

SpeaksFirst = Mapping[str, Collection[str]]
"""Leader -> agents that read the leader's answer before they decide in the same step."""
ALL_AT_ONCE: SpeaksFirst = MappingProxyType({})
"""No leaders: all agents decide at the same time."""
Messages = tuple[tuple[str, str], ...]
Spectator = Callable[[Episode, bool], None]
"""Callback(record so far, True at the end), called at the start and after each step."""
MOST_STEPS = 100_000
"""Maximum number of steps of an episode, so that an environment without an end fails."""


def _in_threads(steps: Sequence[Callable[[], Any]]) -> list[Future[Any]]:
    with ThreadPoolExecutor(64, "step") as threads:
        return [threads.submit(step) for step in steps]


STEPS = Batcher(_in_threads, order=None)
"""Steps of all episodes of an event loop, run concurrently once all coroutines wait."""


@dataclass
class Game:
    """State of one running episode.

    `play_many` makes one object per episode and awaits `play`. Subclasses may override methods.
    """

    env: Any
    seats: Mapping[str, Policy]
    seed: int
    """Seed of the environment's reset."""
    policy_seed: int
    """Seed of all agents' memories."""
    speaks_first: SpeaksFirst
    reset_options: dict[str, Any] | None = None
    given_names: Mapping[str, str] = field(default_factory=dict)
    """Agent -> name in the record; by default the policy's."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Data for `Episode.extra`."""
    states: list[np.ndarray] | None = None
    """Recorded states of the environment; None to record none."""
    at_turn: Callable[[int], None] = lambda turn: None
    """Callback with the number of steps, after every step."""
    spectator: Spectator | None = None
    observations: dict[str, Any] = field(default_factory=dict)
    infos: dict[str, Any] = field(default_factory=dict)
    memories: dict[str, Any] = field(default_factory=dict)
    """Agent -> memory of its policy."""
    turns: list[tuple[AgentStep, ...]] = field(default_factory=list)
    failure: str | None = None
    ends: dict[str, End] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.waiting = {agent: policy for agent, policy in self.seats.items() if waits(policy)}

    async def play(self) -> Episode:
        """Play the episode from its reset to its end and return the record.

        A BackendError or EnvError ends the episode and becomes its `failure`; others are raised.
        In all cases, `leave` of async policies is called and the environment stays open.
        """
        try:
            self.begin()
            self.show()
            while self.env.agents:
                if len(self.turns) >= MOST_STEPS:
                    raise EnvError(f"{self.env.metadata['name']} did not end in {MOST_STEPS} steps")
                decisions: dict[str, Decision] = {}
                if self.speaks_first:
                    await self.ask(decisions, leaders=True)
                await self.ask(decisions, leaders=False)
                outcome = None
                unwrapped = getattr(self.env, "unwrapped", None)
                if getattr(unwrapped, "step_waits", False) and self.states is None:
                    step = partial(self.env.step, played_actions(decisions))
                    outcome = (await STEPS.submit(step)).result()
                self.advance(decisions, outcome)
                self.at_turn(len(self.turns))
                self.show()
        except (BackendError, EnvError) as error:
            self.failure = f"{type(error).__name__}: {error}"
        finally:
            for agent, memory in self.memories.items():
                if agent in self.waiting:
                    self.waiting[agent].leave(memory)
        self.show(over=True)
        return self.episode()

    def show(self, *, over: bool = False) -> None:
        """Call `spectator(record so far, over)`, if any; `over` is True at the end or a failure."""
        if self.spectator is not None:
            self.spectator(self.episode(), over)

    def begin(self) -> None:
        """Reset the environment, and set `observations`, `infos` and `memories`.

        Raises ValueError if an agent has no policy.
        """
        agents = self.env.possible_agents
        if vacant := sorted(set(agents) - set(self.seats)):
            raise ValueError(f"seats must name a policy for every agent; missing: {vacant}")
        self.observations, self.infos = self.env.reset(seed=self.seed, options=self.reset_options)
        self.memories = start_policies(self.seats, agents, self.policy_seed)

    async def ask(self, decisions: dict[str, Decision], *, leaders: bool) -> None:
        """Add the decisions of active agents to `decisions` (agent -> decision).

        These are the leaders if `leaders`, otherwise all others, which read their own leaders'
        answers in `decisions`. Agents with a `forced_decision` are not queried, and their answers
        are not read. The memories of queried agents are replaced.
        """
        seen: dict[str, AgentObservation] = {}
        for agent in self.env.agents:
            if (agent in self.speaks_first) is leaders:
                forced = self.forced_decision(agent)
                if forced is not None:
                    decisions[agent] = forced
                else:
                    seen[agent] = self.see(agent, _messages_to(agent, decisions, self.speaks_first))
        answers = await query_policies(self.seats, seen, self.memories)
        for agent, (decision, memory) in answers.items():
            decisions[agent], self.memories[agent] = decision, memory

    def forced_decision(self, agent: str) -> Decision | None:
        """Return the Decision of an agent whose policy need not be queried, otherwise None.

        Such an agent has False as TO_MOVE in its info, and either one legal action in its mask, or
        no mask and a default action in the environment's text view.
        """
        info = self.infos.get(agent, {})
        action: Any = only_action(info)
        if action is None and not info.get(TO_MOVE, True) and "action_mask" not in info:
            view = getattr(self.env.unwrapped, "text_view", None)
            action = None if view is None else view.default_action
        return None if action is None else Decision(action, asked=False)

    def see(self, agent: str, messages: Messages) -> AgentObservation:
        """Return the agent's observation and mask now; `messages` are (speaker, text) pairs."""
        mask = self.infos.get(agent, {}).get("action_mask")
        return AgentObservation(agent, self.observations[agent], mask, messages)

    def advance(self, decisions: Mapping[str, Decision], outcome: Any = None) -> None:
        """Step the environment with `decisions` (agent -> decision) and record the step.

        Replaces `observations` and `infos`; adds to `turns`, `ends` and, if recorded, `states`.
        `outcome` is the result of `env.step` if it was called already. Raises EnvError if the
        reward of an acting agent is missing.
        """
        before, state = self.observations, self.state()
        outcome = outcome or self.env.step(played_actions(decisions))
        self.observations, rewards, terminations, truncations, self.infos = outcome
        if without := sorted(set(decisions) - set(rewards)):
            raise EnvError(
                f"the rewards of {self.env.metadata['name']} must include each acting agent "
                f"({', '.join(decisions)}), got {', '.join(map(str, rewards)) or 'none'}: "
                f"{without[0]} is missing"
            )
        for agent in decisions:
            if terminations.get(agent):
                self.ends[agent] = End(False)
            elif truncations.get(agent):
                self.ends[agent] = self.truncation(agent)
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
                    _messages_to(agent, decisions, self.speaks_first),
                )
                for agent, decision in decisions.items()
            )
        )

    def state(self) -> np.ndarray | None:
        """Return the environment's state as float32 vector, or None if states are not recorded."""
        return None if self.states is None else np.asarray(self.env.state(), np.float32).ravel()

    def truncation(self, agent: str) -> End:
        """Return a truncated agent's End, with its last observation.

        If its policy's `closing` returns token ids, the End also has them, and the `state()`.
        """
        seen, policy, ids = self.see(agent, ()), self.seats[agent], None
        if isinstance(policy, Closing):
            ids = policy.closing(seen, self.memories[agent])
        return End(True, seen.observation, ids, None if ids is None else self.state())

    def episode(self) -> Episode:
        """Return the record of the episode so far."""
        # `made_as` is read from the object itself: an attribute passed through a wrapper would
        # describe the environment without the wrapper.
        made_as = getattr(self.env, "__dict__", {}).get("made_as")
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
            made_as=made_as if is_plain(made_as) else None,
            reset_options=self.reset_options or {},
            states=None if self.states is None else tuple(self.states),
            ends=self.ends,
        )


def start_policies(
    policies: Mapping[str, Policy], agents: Sequence[str], seed: int
) -> dict[str, Any]:
    """Return agent -> initial memory of its policy, for each agent in `policies`.

    `seed` is the policy seed of the episode, `agents` are all agents of the environment.
    """
    seeds = zip(agents, of_agents(seed, len(agents)), strict=True)
    return {agent: policies[agent].start(own) for agent, own in seeds if agent in policies}


async def query_policies(
    policies: Mapping[str, Policy],
    seen: Mapping[str, AgentObservation],
    memories: Mapping[str, Any],
) -> dict[str, tuple[Decision, Any]]:
    """Return agent -> (decision, new memory) for the agents in `seen`.

    Each policy has one `act` call for its agents. Async errors are raised when all calls are over.
    """
    groups: dict[int, list[str]] = {}
    for agent in seen:
        groups.setdefault(id(policies[agent]), []).append(agent)
    answers: dict[int, Any] = {}
    calls: dict[int, Any] = {}
    # Synchronous policies act first, before any coroutine of the others is created.
    for key, agents in sorted(groups.items(), key=lambda group: waits(policies[group[1][0]])):
        policy = policies[agents[0]]
        results = calls if waits(policy) else answers
        results[key] = policy.act(
            [seen[agent] for agent in agents], [memories[agent] for agent in agents]
        )
    answers |= zip(calls, await together(*calls.values()), strict=True)
    return {
        agent: (decision, memory)
        for key, agents in groups.items()
        for agent, decision, memory in zip(agents, *answers[key], strict=True)
    }


def _messages_to(
    agent: str, decisions: Mapping[str, Decision], speaks_first: SpeaksFirst
) -> Messages:
    return tuple(
        (leader, str(said.action) if said.text is None else said.text)
        for leader, hearers in speaks_first.items()
        if agent in hearers and (said := decisions.get(leader)) is not None and said.asked
    )


def played_actions(decisions: Mapping[str, Decision]) -> dict[str, Any]:
    """Return the actions for `env.step`: agent -> `played_action(decision)`."""
    return {agent: played_action(decision) for agent, decision in decisions.items()}


def played_action(decision: Decision) -> Any:
    """Return the action for `env.step`: a TextAction for an int with a text, else unchanged."""
    if decision.text is None or type(decision.action) is not int:
        return decision.action
    return TextAction(decision.action, decision.text)


def policy_name(policy: Policy) -> str:
    """Return the policy's `name` attribute, or its class name without one."""
    return str(getattr(policy, "name", type(policy).__name__))


T = TypeVar("T")
MakeEnv = Callable[[], Any] | Sequence[Callable[[], Any]]
MakeGame = Callable[..., Game]
Seats = Mapping[str, Policy] | Sequence[Mapping[str, Policy]]
"""Agent -> policy, for all episodes, or one mapping per episode."""


class PlaySettings(TypedDict, total=False):
    """Optional settings of `play_many`."""

    policy_seeds: Sequence[int] | None
    """Seed of the policies in each episode; None uses the environment's seeds."""
    speaks_first: SpeaksFirst
    """Leader -> agents that read the leader's answer before they decide; by default none."""
    reset_options: Sequence[Mapping[str, Any]] | None
    """Options of `env.reset` in each episode."""
    names: Mapping[str, str] | Sequence[Mapping[str, str]] | None
    """Agent -> name in records, for all episodes or per episode; by default the policy's name."""
    extra: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
    """JSON data in the records, for all episodes or one mapping per episode."""
    record_states: bool
    """True to record `env.state()` before each step."""
    timeout: float | None
    """Seconds for all episodes together; None for no limit. Unused if all policies are sync."""
    in_flight: int | asyncio.Semaphore | None
    """Maximum number of concurrent episodes, None for all; a semaphore limits several calls."""
    spectator: Spectator | None
    """Spectator of the first episode."""
    make_game: MakeGame | None
    """Constructor of the running episodes; by default Game."""
    on_end: Callable[[int, Episode], None] | None
    """Callback with an episode's index in `seeds`, and its record, as soon as it ends."""


def play(env: Any, seats: Mapping[str, Policy], seed: int) -> Episode:
    """Play one episode of an environment, which stays open.

    Args:
        env: PettingZoo parallel environment.
        seats: Agent -> policy.
        seed: Seed of `env.reset` and of the policies.

    Returns:
        The record of the episode. After a BackendError or EnvError its `failure` is set.

    Raises:
        ValueError: An agent has no policy.
    """
    return run(Game(env, seats, seed, seed, ALL_AT_ONCE).play())


def play_many(
    make_env: MakeEnv,
    seats: Seats,
    seeds: Sequence[int],
    **settings: Unpack[PlaySettings],
) -> list[Episode]:
    """Play one episode per seed, each in its own environment.

    A running event loop is blocked until all episodes are complete. With only sync policies, the
    episodes are played one after another.

    Args:
        make_env: Constructor of the environment, which is closed after its episode, for all
            episodes or one per episode.
        seats: Agent -> policy, for all episodes or one mapping per episode.
        seeds: Seed of `env.reset` in each episode.
        **settings: See `PlaySettings`.

    Returns:
        The records in the order of `seeds`. A BackendError or EnvError after `make_env` ends only
        its episode, whose `failure` is set. Other errors are raised and end all episodes.

    Raises:
        ValueError: An agent has no policy, `in_flight` is below 1, or a list has a wrong length.
        EpisodeTimeout: Episodes took over `timeout` seconds. Their records are lost.
    """
    return run(play_many_async(make_env, seats, seeds, **settings))


async def play_many_async(
    make_env: MakeEnv, seats: Seats, seeds: Sequence[int], **settings: Unpack[PlaySettings]
) -> list[Episode]:
    """Return the records of `play_many`, played in the current event loop; raises its errors."""
    policy_seeds, in_flight = settings.get("policy_seeds"), settings.get("in_flight")
    if isinstance(in_flight, int) and in_flight < 1:
        raise ValueError(f"in_flight must be 1 or more, or None for no limit, got {in_flight}")
    makers = _by_episode("make_env", make_env, seeds)
    seated = _by_episode("seats", seats, seeds)
    policy_seeds = seeds if policy_seeds is None else policy_seeds
    policy_seeds = _by_episode("policy_seeds", policy_seeds, seeds)
    options: Any = settings.get("reset_options")
    options = _by_episode("reset_options", options, seeds)
    names = _by_episode("names", settings.get("names") or {}, seeds)
    extras = _by_episode("extra", settings.get("extra") or {}, seeds)
    make_game, on_end = settings.get("make_game") or Game, settings.get("on_end")
    work, begun = LongWork("playing"), time.monotonic()
    in_play = over = failed = 0

    def tell_progress(turn: int = 0) -> None:
        if not work.due:  # The text takes longer than the question.
            return
        left: object = "unknown"
        if over:
            left = timedelta(seconds=round((time.monotonic() - begun) / over * (len(seeds) - over)))
        work.at(
            f"{over} of {len(seeds)} episodes finished, {in_play} in flight, {failed} failed, "
            f"remaining time {left}"
        )

    if not isinstance(in_flight, asyncio.Semaphore):
        in_flight = asyncio.Semaphore(in_flight or max(1, len(seeds)))

    async def one(index: int) -> Episode:
        nonlocal in_play, over, failed
        async with in_flight:
            in_play += 1
            env = makers[index]()
            try:
                game = make_game(
                    env,
                    seated[index],
                    seeds[index],
                    policy_seeds[index],
                    settings.get("speaks_first", ALL_AT_ONCE),
                    reset_options=None if (given := options[index]) is None else dict(given),
                    given_names=names[index],
                    extra=dict(extras[index]),
                    states=[] if settings.get("record_states") else None,
                    at_turn=tell_progress,
                    spectator=settings.get("spectator") if index == 0 else None,
                )
                episode = await game.play()
            finally:
                env.close()
            in_play -= 1
            over += 1
            failed += episode.failure is not None
            tell_progress()
        if on_end is not None:
            on_end(index, episode)
        return episode

    if not any(waits(policy) for players in seated for policy in players.values()):
        return [await one(index) for index in range(len(seeds))]
    episodes = [asyncio.create_task(one(index)) for index in range(len(seeds))]
    seconds = settings.get("timeout")
    try:
        async with asyncio.timeout(seconds) as limit:
            return await asyncio.gather(*episodes)
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise EpisodeTimeout(
            f"Episode timeout: {len(seeds)} episodes were not complete after {seconds:g} seconds; "
            "raise rollout.timeout (episode_timeout of MultiModelConfig), or play fewer episodes"
        ) from error
    finally:
        for episode in episodes:
            episode.cancel()
        await asyncio.gather(*episodes, return_exceptions=True)


def _by_episode(name: str, given: T | Sequence[T], seeds: Sequence[int]) -> Sequence[T]:
    if not isinstance(given, Sequence):
        return [given] * len(seeds)
    if len(given) != len(seeds):
        raise ValueError(f"{name} must have one entry per seed ({len(seeds)}), got {len(given)}")
    return given
