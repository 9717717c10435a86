"""Gains of answers by playing games again, against numbers worked by hand."""

import threading

import numpy as np
import pytest

from srl_agents.episode import Decision
from srl_agents.rollout import play
from srl_extensions.research.replays import credit, with_gains
from srl_train import resume
from srl_train.build import build_run
from srl_train.config.run import RunConfig
from srl_train.errors import ConfigError, TrainingError
from srl_train.round import train_round
from srl_train.trajectory import shaped_game
from tests.srl_agents.rollout.carry_game import CarryGame, View
from tests.srl_envs.third_party_games import knock_out
from tests.srl_train.run_state import everything, same, weights


class Plays:
    """Decides as told, turn by turn."""

    def __init__(self, *decisions):
        self.decisions = decisions

    def start(self, seed):
        return 0

    def act(self, seen, states):
        return [self.decisions[number] for number in states], [number + 1 for number in states]


def acts(*actions):
    return Plays(*map(Decision, actions))


def gained(a, b, alternatives=None, discount=0.5, agents=("a", "b"), make_env=CarryGame, seed=0):
    def game_of(episode):
        return shaped_game(episode, ("a", "b"), lambda raw: raw, View.parse_penalty)

    episode = play(CarryGame(), {"a": a, "b": b}, 0)
    [game], steps = with_gains(
        make_env(), [episode], [game_of(episode)], game_of, agents,
        alternatives=alternatives, discount=discount, rng=np.random.default_rng(seed),
    )  # fmt: skip
    return {agent: own.gains for agent, own in game.items()}, steps


def test_difference_rewards_match_hand_computation():
    # a picks 1, 2 and b 2, 1: a is paid 0 and 4, b 3 and 1. Discounted by half:
    found, steps = gained(acts(1, 2), acts(2, 1))
    # a, turn 0: 0 + 4 / 2, with 0 in its place -2 + 3 / 2, for nothing is carried then
    # a, turn 1: 4, with 0 in its place 0
    # b, turn 0: 3 + 1 / 2, with 0 in its place -1 + 1 / 2;   turn 1: 1, with 0 in its place -1
    assert found == {"a": (2.5, 4.0), "b": (4.0, 2.0)}
    assert steps == 2 + 2 * 2 + 2 * 1  # the game, two replays from turn 0, two from turn 1


def test_default_action_has_no_gain():
    found, _ = gained(acts(0, 1), acts(0, 0), discount=1.0)
    assert found == {"a": (0.0, 2.0), "b": (0.0, 0.0)}


def test_counterfactual_credit_matches_hand_computation():
    # a's to go with 0, 1, 2 in turn 0: -2 + 1.5, 0 + 2, 2 + 2.5, of mean 2; in turn 1: 0, 2, 4.
    found, _ = gained(acts(1, 2), acts(2, 1), alternatives=2)
    assert found["a"] == pytest.approx((0.0, 2.0))
    # b's in turn 0: -.5, 1.5, 3.5, of mean 1.5; in turn 1 -1, 1, 3.
    assert found["b"] == pytest.approx((2.0, 0.0))


def test_sampled_alternatives_are_unbiased():
    exact, _ = gained(acts(1, 2), acts(2, 1), alternatives=2)
    drawn = [gained(acts(1, 2), acts(2, 1), alternatives=1, seed=s)[0]["a"][1] for s in range(40)]
    assert set(drawn) == {(4 - 0) * 2 / 3, (4 - 2) * 2 / 3}
    assert np.mean(drawn) == pytest.approx(exact["a"][1], abs=0.3)


def test_illegal_replayed_action_becomes_the_default():
    # With a's 2 in turn 0, b may not pick its 2 in turn 1: it picks 0. To go of a: 4 + 2, where it
    # was 2 + 1 - 2; with a 0 in its place 0 - 2.
    found, _ = gained(acts(1, 0), acts(0, 2), alternatives=2, discount=1.0)
    assert found["a"][0] == pytest.approx(1 - (1 - 2 + 6) / 3)


def test_parse_failure_costs_its_penalty():
    bad = Plays(Decision(0, text="?", parse_failure="no number"), Decision(1))
    found, _ = gained(bad, acts(0, 0), alternatives=2, discount=1.0)
    # To go of a: 0 - .25 + 2, with 1 or 2 in its place 2 + 3, 4 + 4 and no penalty.
    assert found["a"][0] == pytest.approx((2 / 3) * (1.75 - (5 + 8) / 2))


def test_late_agent_gains_from_its_own_answers():
    # Both choose right, the second a turn later; who chooses is paid 1, and after a left 0.
    env = knock_out()
    episode = play(env, {"player_0": acts(1), "player_1": acts(1)}, 0)
    assert [[step.agent for step in turn] for turn in episode.turns] == [["player_0"], ["player_1"]]

    def game_of(one):
        return shaped_game(one, tuple(one.seats), lambda raw: raw, 0.0)

    [game], _ = with_gains(
        env, [episode], [game_of(episode)], game_of, episode.seats,
        alternatives=None, discount=1.0, rng=np.random.default_rng(0),
    )  # fmt: skip
    assert {agent: own.gains for agent, own in game.items()} == {
        "player_0": (1.0,),
        "player_1": (1.0,),
    }


class Moody(CarryGame):
    """Pays by a coin that no seed rules."""

    def step(self, actions):
        observations, paid, *ends = super().step(actions)
        return (
            observations,
            {a: own + np.random.default_rng().random() for a, own in paid.items()},
            *ends,
        )


def test_nondeterministic_episodes_are_refused():
    with pytest.raises(TrainingError, match=r"deterministic replays: turn 1, .: "):
        gained(acts(1, 2), acts(2, 1), make_env=Moody)


def test_environments_without_copies_or_alternatives_are_refused():
    env = CarryGame()
    env.reset()
    config = RunConfig(credit={"name": "difference"})
    credit(config, env, None)
    env.connection = threading.Lock()
    with pytest.raises(ConfigError, match=r"got 'difference', and carry cannot be copied: .*lock"):
        credit(config, env, None)


def test_resumed_run_is_bit_identical(short_run, tmp_path):
    config = short_run(
        credit__name="difference", environment__options={"variant": "pair", "max_cycles": 3}
    )
    whole = build_run(config)
    start = weights(whole)
    row = train_round(whole, 0).row
    # Four games of three turns; two agents' answers, each from its turn to the end.
    assert 12 < row["replayed_steps"] <= 12 + 4 * 2 * (3 + 2 + 1)
    assert not same(weights(whole), start)
    whole.next_round = 1
    resumed = build_run(config)
    resume.load(resumed, tmp_path, resume.save(whole, tmp_path))
    for run in (whole, resumed):
        train_round(run, 1)
    assert same(everything(resumed), everything(whole))


def test_free_text_environment_is_refused(short_run):
    with pytest.raises(ConfigError, match="the actions of math_v0 are not Discrete"):
        build_run(short_run(credit__name="difference", environment__name="math_v0",
                           environment__options={}))  # fmt: skip
