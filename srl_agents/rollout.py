"""Play: from environments and policies to episode records.

`play_many` runs episodes in lock-step and asks each policy once per turn for all its seats in all
episodes, so that a language model answers one batch a turn.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from srl_agents.episode import AgentStep, Decision, End, Episode
from srl_agents.errors import BackendError
from srl_agents.evaluation.progress import LongWork
from srl_agents.policy import Closing, Policy, Seen
from srl_agents.seeding import of_seats
from srl_envs.errors import EnvError
from srl_envs.loading.tagged_json import is_plain
from srl_envs.text.view import TO_MOVE, Spoken

SpeaksFirst = Mapping[str, Collection[str]]
"""Leader -> the seats that hear its words before they decide."""
ALL_AT_ONCE: SpeaksFirst = MappingProxyType({})
Heard = tuple[tuple[str, str], ...]


def play(
    env: Any,
    seats: Mapping[str, Policy],
    seed: int,
    *,
    policy_seed: int | None = None,
    speaks_first: SpeaksFirst = ALL_AT_ONCE,
) -> Episode:
    """One episode of `env` from `reset(seed)`, which stays open. See `play_many`."""
    course = seed if policy_seed is None else policy_seed
    game = _Game.begin(env, seats, seed, course)
    _to_the_end([game], seats, speaks_first)
    return game.episode({})


def play_many(
    make_env: Callable[[], Any],
    seats: Mapping[str, Policy],
    seeds: Sequence[int],
    *,
    policy_seeds: Sequence[int] | None = None,
    speaks_first: SpeaksFirst = ALL_AT_ONCE,
    reset_options: Sequence[Mapping[str, Any]] | None = None,
    names: Mapping[str, str] | None = None,
    extra: Mapping[str, Any] | None = None,
    record_states: bool = False,
) -> list[Episode]:
    """One episode per entry of `seeds`, in that order.

    `seeds[e]` goes to the e-th environment's reset; `policy_seeds[e]` (by default the same number)
    is where every seat's own randomness in that episode comes from, so that a group of episodes
    may share one start and still differ. Leaders in `speaks_first` are asked before the others,
    and their hearers get their words the same turn. `names` says who holds each seat in the
    records (by default the policy's `name`); `extra` is kept on every episode. With `record_states`
    the environment's state() before each turn is kept too, and where a game was cut off that does
    not tell its time, the one it was left in. Every environment that was made is closed, however
    the games end. A seat that its info says has no say in a turn (`TO_MOVE`) is not asked, whoever
    holds it.

    A BackendError or EnvError spoils the episodes it struck, in a reset too: they end there, with
    `failure` set. A seat that no policy holds is a ValueError.
    """
    games = []
    with ExitStack() as opened:
        for index, seed in enumerate(seeds):
            env = make_env()
            opened.callback(env.close)
            options = None if reset_options is None else dict(reset_options[index])
            course = seed if policy_seeds is None else policy_seeds[index]
            game = _Game.begin(env, seats, seed, course, options, names or {})
            game.states = [] if record_states else None
            games.append(game)
        _to_the_end(games, seats, speaks_first)
        return [game.episode(dict(extra or {})) for game in games]


def _to_the_end(
    games: Sequence[_Game], seats: Mapping[str, Policy], speaks_first: SpeaksFirst
) -> None:
    """Play the games in lock-step."""
    work, turn = LongWork(f"playing {len(games)} games"), 0
    playing = [game for game in games if game.playing]
    while playing:
        decided: list[dict[str, Decision]] = [{} for _ in playing]
        _ask(playing, decided, seats, speaks_first, leaders=True)
        _ask(playing, decided, seats, speaks_first, leaders=False)
        for game, choices in zip(playing, decided, strict=True):
            if game.failure is None:
                game.advance(choices, seats, speaks_first)
        playing = [game for game in playing if game.playing]
        turn += 1
        work.at(f"turn {turn}, {len(games) - len(playing)} are over")


@dataclass
class _Game:
    """One episode under way."""

    env: Any
    seed: int
    reset_options: dict[str, Any]
    names: Mapping[str, str]
    observations: dict[str, Any] = field(default_factory=dict)
    infos: dict[str, Any] = field(default_factory=dict)
    memories: dict[str, Any] = field(default_factory=dict)
    turns: list[tuple[AgentStep, ...]] = field(default_factory=list)
    failure: str | None = None
    states: list[np.ndarray] | None = None
    ends: dict[str, End] = field(default_factory=dict)

    @classmethod
    def begin(
        cls,
        env: Any,
        seats: Mapping[str, Policy],
        seed: int,
        policy_seed: int,
        options: dict[str, Any] | None = None,
        given_names: Mapping[str, str] = MappingProxyType({}),
    ) -> _Game:
        agents = env.possible_agents
        vacant = sorted(set(agents) - set(seats))
        if vacant:
            raise ValueError(f"no policy for seat(s) {vacant}: name one for each in `seats`")
        names = {agent: given_names.get(agent) or policy_name(seats[agent]) for agent in agents}
        game = cls(env, seed, options or {}, names)
        try:
            game.observations, game.infos = env.reset(seed=seed, options=options)
            game.memories = {
                agent: seats[agent].start(own)
                for agent, own in zip(agents, of_seats(policy_seed, len(agents)), strict=True)
            }
        except (BackendError, EnvError) as error:
            game.fail(error)
        return game

    def fail(self, error: Exception) -> None:
        """End the episode here, spoilt."""
        self.failure = f"{type(error).__name__}: {error}"

    @property
    def playing(self) -> bool:
        return self.failure is None and bool(self.env.agents)

    def without_say(self, agent: str) -> Decision | None:
        """What a seat plays that has no say in this turn; None for all others, which are asked."""
        info = self.infos.get(agent, {})
        mask = info.get("action_mask")
        if info.get(TO_MOVE, True) or mask is None or np.count_nonzero(mask) != 1:
            return None
        return Decision(int(np.argmax(mask)), asked=False)

    def see(self, agent: str, heard: Heard) -> Seen:
        mask = self.infos.get(agent, {}).get("action_mask")
        return Seen(agent, self.observations[agent], mask, heard)

    def advance(
        self,
        choices: Mapping[str, Decision],
        seats: Mapping[str, Policy],
        speaks_first: SpeaksFirst,
    ) -> None:
        before = self.observations
        try:
            state = self.state()
            self.observations, rewards, terminations, truncations, self.infos = self.env.step(
                {agent: played_action(decision) for agent, decision in choices.items()}
            )
            over = {agent: is_truncated(terminations, truncations, agent) for agent in choices}
            ends = {
                agent: self.cut_off(agent, seats[agent]) if cut else End(False)
                for agent, cut in over.items()
                if cut is not None
            }
        except EnvError as error:
            self.fail(error)
            return
        self.ends |= ends
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
                    heard_by(agent, choices, speaks_first),
                )
                for agent, decision in choices.items()
            )
        )

    def state(self) -> np.ndarray | None:
        """The environment's, where states are kept."""
        return None if self.states is None else np.asarray(self.env.state(), np.float32).ravel()

    def cut_off(self, agent: str, policy: Policy) -> End:
        """The end of a seat that was truncated, and how its policy reads what it saw last."""
        seen = self.see(agent, ())
        ids = None
        if isinstance(policy, Closing):
            ids = policy.closing(seen, self.memories[agent])
        return End(True, seen.observation, ids, None if ids is None else self.state())

    def episode(self, extra: dict[str, Any]) -> Episode:
        return Episode(
            environment=self.env.metadata["name"],
            seed=self.seed,
            seats=self.names,
            turns=tuple(self.turns),
            failure=self.failure,
            extra=extra,
            made_as=_made_as(self.env),
            reset_options=self.reset_options,
            states=None if self.states is None else tuple(self.states),
            ends=self.ends,
        )


def _ask(
    games: Sequence[_Game],
    decided: Sequence[dict[str, Decision]],
    seats: Mapping[str, Policy],
    speaks_first: SpeaksFirst,
    *,
    leaders: bool,
) -> None:
    """Ask every policy once for all its seats among the leaders, or among the others."""
    asked: dict[int, tuple[Policy, list[tuple[int, str]]]] = {}
    for number, game in enumerate(games):
        for seat in game.env.agents:
            if (seat in speaks_first) is leaders:
                if (forced := game.without_say(seat)) is not None:
                    decided[number][seat] = forced
                    continue
                policy = seats[seat]
                asked.setdefault(id(policy), (policy, []))[1].append((number, seat))
    for policy, places in asked.values():
        places = [(number, seat) for number, seat in places if games[number].failure is None]
        if not places:
            continue
        seen = [
            games[number].see(seat, heard_by(seat, decided[number], speaks_first))
            for number, seat in places
        ]
        states = [games[number].memories[seat] for number, seat in places]
        try:
            decisions, memories = policy.act(seen, states)
        except BackendError as error:
            for number, _ in places:
                games[number].fail(error)
            continue
        for (number, seat), decision, memory in zip(places, decisions, memories, strict=True):
            decided[number][seat] = decision
            games[number].memories[seat] = memory


def heard_by(seat: str, said: Mapping[str, Decision], speaks_first: SpeaksFirst) -> Heard:
    """The words that reach a seat before it decides, as (speaker, words)."""
    return tuple(
        (leader, _words(said[leader]))
        for leader, hearers in speaks_first.items()
        if seat in hearers and leader in said and said[leader].asked
    )


def played_action(decision: Decision) -> Any:
    """The action, with the answer it was read from where there is one: some games let it be heard,
    and rewards of one's own may judge it."""
    if decision.text is None or type(decision.action) is not int:
        return decision.action
    return Spoken(decision.action, decision.text)


def is_truncated(
    terminations: Mapping[str, Any], truncations: Mapping[str, Any], agent: str
) -> bool | None:
    """Whether a step cut the agent's game off; False where the game ended by its rules, which
    outweighs a limit reached in the same step, and None where it goes on."""
    if terminations.get(agent):
        return False
    return True if truncations.get(agent) else None


def _words(decision: Decision) -> str:
    return decision.text if decision.text is not None else str(decision.action)


def _made_as(env: Any) -> Mapping[str, Any] | None:
    """How to make the environment again; None for one that the catalogue did not make as it is."""
    # The environment's own, never that of what it wraps.
    made: Mapping[str, Any] | None = getattr(env, "__dict__", {}).get("made_as")
    return made if made is not None and is_plain(made) else None


def policy_name(policy: Policy) -> str:
    """How a policy is called in records: its `name`, or its class's."""
    return str(getattr(policy, "name", type(policy).__name__))
