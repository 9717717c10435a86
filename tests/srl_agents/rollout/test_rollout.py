"""Queries of policies in play and play_many."""

import numpy as np
import pytest

from srl_agents.episode import Decision, from_json, to_json
from srl_agents.errors import BackendError
from srl_agents.policy import AgentObservation
from srl_agents.rollout import play, play_many, policy_name
from srl_envs import coop_compete_v0
from srl_envs.errors import EnvError


class Ledger:
    """Environment whose rewards identify the action: 100 * seed + 10 * turn + action.

    `lives` maps agents to their number of steps; `breaks_at` is the step that fails.
    """

    metadata = {"name": "ledger_v0"}  # noqa: RUF012

    def __init__(self, lives=None, breaks_at=None, breaks_in_reset=False):
        self.lives = lives or {"a": 2, "b": 2}
        self.possible_agents = list(self.lives)
        self.breaks_at, self.breaks_in_reset = breaks_at, breaks_in_reset
        self.closed = 0

    def close(self):
        self.closed += 1

    def reset(self, seed=None, options=None):
        self.seed, self.turn, self.options = seed, 0, options
        if self.breaks_in_reset:
            raise EnvError("it did not start")
        self.agents = list(self.possible_agents)
        return self._seen(), {a: {"action_mask": f"mask of {a}"} for a in self.agents}

    def _seen(self):
        return {a: (self.seed, self.turn, a) for a in self.agents}

    def step(self, actions):
        assert set(actions) == set(self.agents)
        if self.turn == self.breaks_at:
            raise EnvError("it broke")
        rewards = {a: 100 * self.seed + 10 * self.turn + actions[a] for a in actions}
        infos = {a: {"turn": self.turn, "action_mask": f"later {a}"} for a in actions}
        self.turn += 1
        over = {a: self.turn >= self.lives[a] for a in actions}
        seen = self._seen()
        self.agents = [a for a in self.agents if not over[a]]
        return seen, rewards, over, dict.fromkeys(actions, False), infos


class Scribe:
    """Policy that answers its number plus a draw, and records its calls."""

    def __init__(self, name, number=0, fails_at_call=None, says=None):
        self.name, self.number, self.says = name, number, says
        self.calls, self.fails_at_call = [], fails_at_call

    def start(self, seed):
        return {"seed": seed, "turns": 0}

    def act(self, seen, states):
        self.calls.append(list(seen))
        if len(self.calls) - 1 == self.fails_at_call:
            raise BackendError("no answer")
        decisions = []
        for one, state in zip(seen, states, strict=True):
            assert state["turns"] == one.observation[1], "a memory of another seat or turn"
            draw = int(np.random.default_rng([state["seed"], state["turns"]]).integers(1, 4))
            decisions.append(Decision(action=self.number + draw, text=self.says))
        return decisions, [{**state, "turns": state["turns"] + 1} for state in states]


class Nameless(Scribe):
    def __init__(self):
        super().__init__("x")
        del self.name


def test_each_policy_is_queried_once_per_step_for_all_its_agents():
    shared, other = Scribe("shared"), Scribe("other")
    seats = {"a": shared, "b": other, "c": shared}
    lives = {"a": 3, "b": 3, "c": 2}
    play_many(lambda: Ledger(lives), seats, [1, 2, 3, 4])
    assert [len(call) for call in shared.calls] == [2, 2, 1] * 4
    assert [len(call) for call in other.calls] == [1, 1, 1] * 4
    assert {type(one) for call in shared.calls for one in call} == {AgentObservation}
    asked = [(one.observation[0], one.agent) for call in shared.calls[::3] for one in call]
    assert asked == [(seed, seat) for seed in (1, 2, 3, 4) for seat in "ac"]


def test_each_decision_reaches_its_agent_and_episode():
    low, high = Scribe("low", 0), Scribe("high", 5)
    lives = {"a": 3, "b": 2, "c": 3}
    seats = {"a": low, "b": high, "c": low}
    episodes = play_many(lambda: Ledger(lives), seats, [7, 3, 5])
    assert [e.seed for e in episodes] == [7, 3, 5]
    for episode in episodes:
        assert [len(turn) for turn in episode.turns] == [3, 3, 2]
        for number, turn in enumerate(episode.turns):
            for step in turn:
                assert step.observation == (episode.seed, number, step.agent)
                assert step.reward == 100 * episode.seed + 10 * number + step.decision.action
                assert step.info == {"turn": number}  # masks are left out
                assert (step.decision.action > 4) is (step.agent == "b")
                assert step.messages == ()
        assert episode.environment == "ledger_v0"
        assert episode.seats == {"a": "low", "b": "high", "c": "low"}
        assert episode.failure is None


def actions(episode):
    return [[step.decision.action for step in turn] for turn in episode.turns]


def test_equal_seeds_give_equal_episodes():
    class Coin:
        def start(self, seed):
            return np.random.default_rng(seed)

        def act(self, seen, states):
            return [Decision(action=int(state.integers(2))) for state in states], list(states)

    def run():
        coin = Coin()
        seats = {"agent_0": coin, "agent_1": coin}
        episodes = play_many(
            lambda: coop_compete_v0.parallel_env(num_agents=2, max_cycles=5),
            seats,
            [11, 12],
            policy_seeds=[1, 2],
        )
        return [[(s.decision, s.reward) for t in e.turns for s in t] for e in episodes]

    first = run()
    assert first == run()
    assert first[0] != first[1]


def test_names_options_and_extra_are_recorded():
    made = []

    def make():
        made.append(Ledger())
        return made[-1]

    seats = {"a": Scribe("p"), "b": Nameless()}
    episodes = play_many(
        make,
        seats,
        [1, 2],
        reset_options=[{"episode": 10}, {"episode": 11}],
        names={"a": "model_0"},
        extra={"round": 3},
    )
    assert [env.options for env in made] == [{"episode": 10}, {"episode": 11}]
    assert episodes[0].seats == {"a": "model_0", "b": "Nameless"}
    assert policy_name(seats["a"]) == "p"
    assert episodes[1].extra == {"round": 3}
    play(made[0], seats, 1)
    assert made[0].options is None


def test_environments_and_extra_of_each_episode_and_the_callback_at_its_end():
    ended = {}
    makers = [lambda: Ledger({"a": 2, "b": 1}), lambda: Ledger({"a": 3, "b": 1})]
    episodes = play_many(
        makers,
        dict.fromkeys("ab", Scribe("p")),
        [1, 1],
        extra=[{"number": 0}, {"number": 1}],
        on_end=ended.__setitem__,
    )
    assert [len(episode.turns) for episode in episodes] == [2, 3]
    assert [episode.extra["number"] for episode in episodes] == [0, 1]
    assert ended == dict(enumerate(episodes))


def test_an_agent_without_policy_is_rejected():
    with pytest.raises(ValueError, match=r"\['b', 'c'\]"):
        play(Ledger({"a": 1, "b": 1, "c": 1}), {"a": Scribe("p"), "z": Scribe("p")}, 1)


# ---- leaders -------------------------------------------------------------------------------------


def test_leaders_decide_first_and_their_hearers_read_the_answers():
    calls = []

    class Noted(Scribe):
        def act(self, seen, states):
            calls.append((self.name, [(one.agent, one.messages) for one in seen]))
            return super().act(seen, states)

    leader, rest = Noted("leader", says="follow me"), Noted("rest")
    seats = {"a": rest, "b": leader, "c": rest, "d": rest}
    lives = dict.fromkeys("abcd", 2)
    [episode] = play_many(lambda: Ledger(lives), seats, [1], speaks_first={"b": ("a", "d")})
    words = (("b", "follow me"),)
    turn = [("leader", [("b", ())]), ("rest", [("a", words), ("c", ()), ("d", words)])]
    assert calls == turn * 2
    heard = {step.agent: step.messages for step in episode.turns[0]}
    assert heard == {"a": words, "b": (), "c": (), "d": words}


# ---- turns without a say ---------------------------------------------------------------------


class InTurns(Ledger):
    """Agents move in turn; the others have only action 0. `says` adds TO_MOVE to the infos."""

    def __init__(self, lives=None, says=True):
        super().__init__(lives)
        self.says = says

    def _infos(self):
        mover = self.agents[self.turn % len(self.agents)] if self.agents else None
        told = {}
        for agent in self.possible_agents:
            mask = np.array([0, 1, 1, 1] if agent == mover else [1, 0, 0, 0], np.int8)
            told[agent] = {"action_mask": mask} | ({"to_move": agent == mover} if self.says else {})
        return told

    def reset(self, seed=None, options=None):
        seen, _ = super().reset(seed, options)
        return seen, self._infos()

    def step(self, actions):
        seen, rewards, over, cut, _ = super().step(actions)
        return seen, rewards, over, cut, self._infos()


class Mover(Scribe):
    def act(self, seen, states):
        self.calls.append(list(seen))
        return [Decision(action=2, text="two") for _ in seen], list(states)


def test_an_agent_that_is_not_to_move_is_not_queried():
    one, other = Mover("one"), Mover("other")
    lives = {"a": 3, "b": 3}
    episode = play(InTurns(lives), {"a": one, "b": other}, 1)
    assert [[seen.agent for seen in call] for call in one.calls] == [["a"], ["a"]]
    assert [[seen.agent for seen in call] for call in other.calls] == [["b"]]
    for number, turn in enumerate(episode.turns):
        decided = {step.agent: step.decision for step in turn}
        mover, waits = ("a", "b") if number % 2 == 0 else ("b", "a")
        assert decided[mover] == Decision(action=2, text="two")
        assert decided[waits] == Decision(action=0, asked=False)
        rewards = {step.agent: step.reward for step in turn}
        assert rewards[waits] == 100 + 10 * number, "what it is paid meanwhile is kept"
    assert [len(episode.asked_of(seat)) for seat in "ab"] == [2, 1]
    assert from_json(to_json(episode)).turns[0][1].decision == episode.turns[0][1].decision


def test_record_states_records_the_state_before_each_step():
    class Stated(Ledger):
        def state(self):
            return np.array([self.seed, self.turn])

    seats = {"a": Scribe("x"), "b": Scribe("x")}
    kept = play_many(lambda: Stated({"a": 2, "b": 1}), seats, [3, 4], record_states=True)
    broken = play_many(lambda: Stated(breaks_at=1), seats, [3], record_states=True)
    assert [[s.tolist() for s in e.states] for e in kept] == [[[3, 0], [3, 1]], [[4, 0], [4, 1]]]
    assert kept[0].states[0].dtype == np.float32
    assert len(broken[0].states) == len(broken[0].turns) == 1
    assert play_many(Ledger, seats, [3])[0].states is None
