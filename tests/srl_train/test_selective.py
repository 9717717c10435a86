"""Scores of models, and updates of the best ones."""

from dataclasses import replace

import pytest
from torch import tensor

from srl_agents.episode import AgentStep, Decision, Episode
from srl_envs import staged_v0, team_battle_v0
from srl_train.scores import CERTAIN, model_scores, roles_of
from srl_train.updates import RoundContext, selective


def gradients_of(models):
    return {model: {"w": tensor([1.0])} for model in models}


def rounds(strategy, scores_of_rounds, models="abcd", start=0, state=None):
    """Return the updated models of each round, and the last state."""
    state = strategy.init(tuple(models)) if state is None else state
    updated = []
    for number, scores in enumerate(scores_of_rounds, start):
        context = RoundContext(number, 0, scores)
        given, state = strategy.on_gradients(gradients_of(models), state, context)
        updated.append("".join(model for model in models if given[model] is not None))
    return updated, state


ABCD = {"a": 20.0, "b": 15.0, "c": 10.0, "d": 5.0}  # far apart, in standard errors


def test_the_top_fraction_updates_and_at_least_one():
    expected = {0.74: "ab", 0.75: "abc", 1.0: "abcd", 0.0: "a"}
    assert {f: rounds(selective(f), [ABCD])[0][0] for f in expected} == expected


def test_patience_lets_every_model_update():
    updated, state = rounds(selective(0.5, patience=2), [ABCD] * 6)
    # c and d are passed over in rounds 0 and 1, update in 2 together with the top, then wait again
    assert updated == ["ab", "ab", "abcd", "ab", "ab", "abcd"]
    assert state["waited"] == {"a": 0, "b": 0, "c": 0, "d": 0}


def test_ties_prefer_the_longest_wait_then_the_name():
    equal = dict.fromkeys("abcd", 1.0)
    assert rounds(selective(0.5, patience=99), [equal] * 4)[0] == ["ab", "cd", "ab", "cd"]
    assert rounds(selective(0.25, patience=99), [equal] * 5)[0] == ["a", "b", "c", "d", "a"]


def test_differences_within_noise_are_ignored():
    close = {"a": 4.0, "b": 3.0, "c": 2.0, "d": 1.0}  # each within 3 of the best
    assert rounds(selective(0.5, patience=99), [close] * 4)[0] == ["ab", "cd", "ab", "cd"]
    # d is far off, and comes only after the others.
    far = {**close, "d": -9.0}
    assert rounds(selective(0.5, patience=99), [far] * 3)[0] == ["ab", "ac", "ab"]


def test_the_selection_is_fixed_within_a_round():
    strategy = selective(0.5)
    state = strategy.init(("a", "b"))
    seen = []
    for number, step, scores in [
        (0, 0, {"a": 9.0, "b": 1.0}),
        (0, 1, {"a": 1.0, "b": 9.0}),  # scores do not change in a round; even then
        (1, 0, {"a": 1.0, "b": 9.0}),
        (1, 1, {"a": 1.0, "b": 9.0}),
    ]:
        context = RoundContext(number, step, scores)
        given, state = strategy.on_gradients(gradients_of("ab"), state, context)
        seen.append(next(model for model in "ab" if given[model] is not None))
    assert seen == ["a", "a", "b", "b"]
    assert state["waited"] == {"a": 1, "b": 0}


def test_models_without_a_score_or_gradient_are_no_candidates_and_do_not_wait():
    strategy = selective(0.5, patience=1)
    state = strategy.init(tuple("abcd"))
    gradients = {**gradients_of("abd"), "c": None}
    context = RoundContext(0, 0, {"a": 1.0, "b": 6.0, "c": 9.0})  # d has no score
    given, state = strategy.on_gradients(gradients, state, context)
    assert {model for model, own in given.items() if own is not None} == {"b"}
    assert state["waited"] == {"a": 1, "b": 0, "c": 0, "d": 0}


def played(returns, seed=0):
    """A game of one turn that pays each agent so."""
    steps = tuple(AgentStep(a, None, Decision(0), float(r)) for a, r in returns.items())
    return Episode("game", seed, dict.fromkeys(returns, ""), (steps,))


def scored(games, models, roles):
    """The scores where `models` play those agents, agent -> model."""
    seated = [replace(e, seats={agent: models[agent] for agent in e.seats}) for e in games]
    return model_scores(seated, set(models.values()), roles)


def test_scores_by_hand():
    # Excesses of a: (4 - 2) / 2 = 1, then 3: mean 2, deviation sqrt 2, error sqrt 2 / sqrt 2 = 1.
    games = [played({"a": 4, "b": 2}), played({"a": 7, "b": 1})]
    scores = scored(games, {"a": "x", "b": "y"}, {"a": "agent", "b": "agent"})
    assert scores == pytest.approx({"x": 2.0, "y": -2.0})
    # The same from two starts each: over starts the error is 1, over the four games 1 / sqrt 3.
    games = [played({"a": 2 * e, "b": 0}, start) for e, start in ((1, 0), (1, 0), (3, 1), (3, 1))]
    scores = scored(games, {"a": "x", "b": "y"}, {"a": "agent", "b": "agent"})
    assert scores == pytest.approx({"x": 2.0, "y": -2.0})


def test_scores_compare_agents_of_one_role():
    games = [played({"hunter_0": 90 + i, "hare_0": i % 3}) for i in range(6)]
    models = {"hunter_0": "x", "hare_0": "y"}
    assert scored(games, models, {"hunter_0": "hunter", "hare_0": "hare"}) == {"x": 0, "y": 0}
    # Where two models hold both roles, each is compared with its like.
    games = [played({"hunter_0": 90 + i % 2, "hunter_1": 80, "hare_0": 5}) for i in range(6)]
    models = {"hunter_0": "x", "hunter_1": "y", "hare_0": "y"}
    roles = {"hunter_0": "hunter", "hunter_1": "hunter", "hare_0": "hare"}
    scores = scored(games, models, roles)
    assert scores["x"] > 20 > -20 > scores["y"]


def test_scores_without_enough_data_are_zero_or_certain():
    roles = {"a": "agent", "b": "agent"}
    models = {"a": "x", "b": "y"}
    assert scored([], models, roles) == {}
    assert scored([played({"a": 1, "b": 0})], models, roles) == {"x": 0, "y": 0}
    sure = [played({"a": 0.3, "b": 0.1})] * 4
    assert scored(sure, models, roles) == {"x": CERTAIN, "y": -CERTAIN}
    same = [played({"a": 0.1, "b": 0.1, "c": 0.1})] * 4
    three = scored(same, {**models, "c": "z"}, {**roles, "c": "agent"})
    assert three == {"x": 0, "y": 0, "z": 0}


def test_roles_are_the_environments_the_teams_or_the_names():
    assert roles_of(team_battle_v0.parallel_env(team_size=2)) == {
        "red_0": "team_a red_", "red_1": "team_a red_",
        "blue_0": "team_b blue_", "blue_1": "team_b blue_",
    }  # fmt: skip
    assert roles_of(staged_v0.parallel_env(num_agents=4)) == {
        "agent_0": "adversary", "agent_1": "player", "agent_2": "player", "agent_3": "player",
    }  # fmt: skip
