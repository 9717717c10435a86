"""Frozen models play without training; pools of past versions record who played."""

import copy
import dataclasses
from collections import Counter

import numpy as np
import pytest
import torch

from srl_agents.episode import AgentStep, Decision, Episode
from srl_train.build import build_run
from srl_train.config.models import PoolConfig
from srl_train.config.yaml_file import from_tree
from srl_train.errors import CheckpointError
from srl_train.opponent_pool import OpponentPool
from srl_train.pools import grow_pools
from srl_train.round import plan_round, train_round
from tests.srl_train.run_state import everything, play_round, resumed_and_whole, same

pytestmark = pytest.mark.usefixtures("one_model")

SELF_PLAY = {
    "environment": {"name": "team_battle_v0", "options": {"team_size": 2, "max_cycles": 2}},
    "models": {"count": 2},
    "rollout": {"group_size": 2, "groups_per_round": 1},
    "opponent_pools": {"past": {"models": ["model_0"], "every": 2, "keep": 2}},
    "seats": {"red_0": "model_0", "red_1": "model_1", "blue_0": "past", "blue_1": "past"},
    "logging": {"evaluation_episodes": 2},
    "rounds": 4,
}


class Noting:
    """Publisher that records its calls."""

    def __init__(self, published):
        self.published = published

    def publish(self, name, version, tensors):
        assert name == "past"
        self.published.append((float(tensors["w"]), version))


def pool(draw="uniform", models=("a",), every=1, keep=2):
    sat = []
    config = PoolConfig(models=models, every=every, keep=keep, draw=draw)
    return OpponentPool("past", config, Noting(sat)), sat


def weights(value):
    return {"a": {"w": torch.tensor(float(value))}, "b": {"w": torch.tensor(-float(value))}}


def game(ours, theirs, met):
    def step(agent, reward):
        return AgentStep(agent, None, Decision(action=0), reward)

    turns = ((step("x", ours), step("y", theirs)),)
    extra = {"opponents": {"past": met}}
    return Episode("g", 0, {"x": "model_0", "y": "past"}, turns, extra=extra)


def test_the_first_snapshot_and_the_newest_are_kept():
    made, _ = pool(models=("a", "b"))
    for rounds in range(6):
        made.grow(rounds, weights(rounds))
        made.grow(rounds, weights(99))  # taken already
    assert [(s.name, float(s.weights["w"])) for s in made.snapshots] == [
        ("a@0", 0.0), ("b@0", -0.0), ("a@4", 4.0), ("b@4", -4.0), ("a@5", 5.0), ("b@5", -5.0),
    ]  # fmt: skip


def test_probabilities_of_draws():
    made, sat = pool("latest", models=("a", "b"))
    made.grow(0, weights(1))
    made.grow(1, weights(2))
    assert made.chances() == [0, 0, 0.5, 0.5]
    seen = {made.draw(np.random.default_rng(seed)) for seed in range(20)}
    assert seen == {"a@1", "b@1"}
    for name in (*sorted(seen), "b@1"):
        made.seat(name)
    # New weights with an old version must not use the cache of the old weights.
    assert sat == [(2.0, "a@1"), (-2.0, "b@1")]
    uniform, _ = pool()
    uniform.snapshots = made.snapshots
    assert uniform.chances() == [0.25] * 4


def test_prioritized_draws_prefer_strong_opponents():
    made, _ = pool("prioritized")
    for rounds in range(3):
        made.grow(rounds, weights(rounds))
    met_first = [game(1.0, 0.0, "a@0")] * 4 + [game(2.0, 2.0, "a@0")] * 2  # 5 of 6
    made.record_results([*met_first, *[game(0.0, 1.0, "a@1")] * 2], ["model_0"])  # none of 2
    assert [s.win_rate for s in made.snapshots] == [6 / 8, 1 / 4, 1 / 2]
    scores = np.array([(2 / 8) ** 2, (3 / 4) ** 2, (1 / 2) ** 2])
    assert made.chances() == pytest.approx(scores / scores.sum())


def test_nash_draws_follow_the_equilibrium_of_episodes_between_snapshots():
    made, _ = pool("nash")
    made.grow(0, weights(0))
    assert made.chances() == [1.0]
    for rounds in (1, 2):
        made.grow(rounds, weights(rounds))
    _, paper, scissors = made.snapshots
    # Rock beats scissors by 3, the others win by 1: rock and scissors 1/5, paper 3/5.
    paper.leads = {"a@0": 1.0}
    scissors.leads = {"a@0": -3.0, "a@1": 1.0}
    assert made.payoffs().tolist() == [[0, -1, 3], [1, 0, -1], [-3, 1, 0]]
    assert made.chances() == pytest.approx([0.2, 0.6, 0.2])
    scissors.leads = {"a@0": 1.0, "a@1": 1.0}
    assert made.chances() == pytest.approx([0.0, 0.0, 1.0], abs=1e-6)


NASH = {
    **SELF_PLAY,
    "opponent_pools": {"past": {"models": ["model_0", "model_1"], "every": 2, "draw": "nash",
                                "nash_episodes": 3}},
    "seats": {"red_0": "model_0", "red_1": "model_1", "blue_0": "past", "blue_1": "uniform"},
}  # fmt: skip


def test_snapshots_play_each_other_in_both_orders():
    run = build_run(from_tree(NASH))
    with torch.no_grad():  # from equal starts, equal snapshots play equal games in both places
        for tensor in run.learners["model_1"].weights().values():
            tensor.add_(torch.randn(tensor.shape, generator=torch.Generator().manual_seed(1)))
    played = []
    rollout = run.engine.play

    def watched(games):
        episodes = rollout(games)
        played.append(episodes)
        return episodes

    run.engine.play = watched
    grow_pools(run, 0)
    past = run.pools["past"]
    assert [s.name for s in past.snapshots] == ["model_0@0", "model_1@0"]
    [episodes] = played  # of model_1@0 with model_0@0
    assert {e.extra["opponents"]["past"] for e in episodes} == {"model_0@0"}
    others = {"blue_1": "uniform"}
    here, there = episodes[:3], episodes[3:]
    assert [e.seed for e in here] == [e.seed for e in there]
    for episode in here:  # it holds the agents of all that learn, then those of the pool
        assert episode.seats == {"red_0": "model_1", "red_1": "model_1", "blue_0": "past", **others}
    for episode in there:
        assert episode.seats == {"red_0": "past", "red_1": "past", "blue_0": "model_1", **others}
        tokens = episode.steps_of("red_1")[0].decision.tokens
        assert tokens.model.version == "model_0@0"
    returns = [e.returns() for e in (*here, *there)]
    red_leads = [(r["red_0"] + r["red_1"]) / 2 - r["blue_0"] for r in returns]
    lead = (np.mean(red_leads[:3]) - np.mean(red_leads[3:])) / 2
    assert lead != 0
    assert past.snapshots[1].leads == {"model_0@0": pytest.approx(lead)}
    assert past.payoffs() == pytest.approx(np.array([[0, -lead], [lead, 0]]))
    grow_pools(run, 0)
    assert len(played) == 1, "each pair once"
    assert all(total.episodes == 0 for total in run.totals.values()), "they are no training"


def test_drawn_snapshots_play_with_their_weights():
    run = build_run(from_tree(SELF_PLAY))
    first = play_round(run, 0)
    learner = run.learners["model_0"]
    with torch.no_grad():
        for tensor in learner.weights().values():
            tensor.add_(torch.randn(tensor.shape, generator=torch.Generator().manual_seed(1)))
    run.versions["model_0"] = 1
    run.publish("model_0")
    again = play_round(run, 0)  # the same snapshot: only model_0 itself answers differently
    own, past = [[e.steps_of(s)[0].decision.tokens for e in first] for s in ("red_0", "blue_0")]
    own_now, past_now = ([[e.steps_of(s)[0].decision.tokens for e in again]
                          for s in ("red_0", "blue_0")])  # fmt: skip
    assert [t.completion_ids for t in past] == [t.completion_ids for t in past_now]
    for before, now in zip(past, past_now, strict=True):
        assert before.logprobs == pytest.approx(now.logprobs, abs=1e-4)
    assert [t.logprobs for t in own] != [t.logprobs for t in own_now]


def test_each_group_draws_its_own_opponents():
    tree = copy.deepcopy(SELF_PLAY) | {"models": {"count": 2, "adapters": {"rank": 4}}}
    tree["opponent_pools"]["past"] |= {"models": ["model_0", "model_1"], "draw_each": "group"}
    tree["rollout"] = {"group_size": 2, "groups_per_round": 6}
    run = build_run(from_tree(tree))
    result = train_round(run, 0)
    met = [episode.extra["opponents"]["past"] for episode in result.episodes]
    assert met[::2] == met[1::2], "members of a group are compared: they meet the same opponent"
    assert {"model_0@0", "model_1@0"} == set(met)
    for episode, name in zip(result.episodes, met, strict=True):
        for agent in ("blue_0", "blue_1"):
            assert episode.steps_of(agent)[0].decision.tokens.model.version == name
    assert {s.name: s.games for s in run.pools["past"].snapshots} == Counter(met)
    seeds = [episode.seed for episode in result.episodes]
    assert seeds == plan_round(build_run(from_tree(tree)), 0).games.env_seeds, "in their order"


def test_a_resumed_run_draws_the_same_opponents(tmp_path):
    settings = {"draw_each": "group", "draw": "nash", "nash_episodes": 2}
    tree = copy.deepcopy(SELF_PLAY) | {"checkpoints": {"every": 2}, "rounds": 3}
    tree["opponent_pools"]["past"] |= settings
    rest, whole = resumed_and_whole(from_tree(tree), tmp_path, rounds=2)
    assert same(everything(rest.run), everything(whole.run))
    pools = [trained.run.pools["past"] for trained in (whole, rest)]
    known, other = [[(s.name, s.games, s.won, s.leads) for s in p.snapshots] for p in pools]
    assert known == other
    assert [name for name, *_ in known] == ["model_0@0", "model_0@2"]
    assert list(known[1][3]) == ["model_0@0"]
    last = "episodes/round_00000002.jsonl"  # records and all: who answered is in them
    assert (tmp_path / "cut" / last).read_text() == (tmp_path / "whole" / last).read_text()
    assert '"model": "past", "version": "model_0@' in (tmp_path / "whole" / last).read_text()


@pytest.mark.parametrize(
    "change",
    [
        {"model": "model_7"},
        {"leads": {"a@0": float("inf")}},
        {"leads": {}},
    ],
)
def test_a_pool_loads_only_its_own_saved_state(change):
    made, _ = pool("nash")
    for rounds in range(2):
        made.grow(rounds, weights(rounds))
    made.snapshots[1].leads = {"a@0": 0.5}
    first, second = copy.deepcopy(made.snapshots)
    made.load_state([first, second], 1, weights(0))
    with pytest.raises(CheckpointError, match="the snapshots of pool past do not fit"):
        made.load_state([first, dataclasses.replace(second, **change)], 1, weights(0))
    assert made.chances() == pytest.approx([0.0, 1.0], abs=1e-6)
