"""How models fared against each other, and what equal and better ones come to by it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from srl_agents.episode import AgentStep, Decision, Episode
from srl_envs import staged_v0, team_battle_v0
from srl_train.scores import CERTAIN, model_scores, roles_of
from srl_train.updates import TEMPERATURE, RoundContext, federated, score_weights, selective

MODELS = {f"agent_{i}": f"model_{i}" for i in range(4)}
LIKE = dict.fromkeys(MODELS, "agent")


def played(returns, seed=0):
    """A game of one turn that pays each agent so."""
    steps = tuple(AgentStep(a, None, Decision(0), float(r)) for a, r in returns.items())
    return Episode("game", seed, dict.fromkeys(returns, ""), (steps,))


def scored(games, models, roles):
    """The scores where `models` play those agents, agent -> model."""
    seated = [replace(e, seats={agent: models[agent] for agent in e.seats}) for e in games]
    return model_scores(seated, set(models.values()), roles)


def a_round(rng, better=0.0, places=0.0, starts=2, games=8):
    """Returns of four agents, of deviation 1; agent_0 earns `better` more, and each start gives
    each agent something of deviation `places`."""
    found = []
    for start in range(starts):
        place = places * rng.standard_normal(4)
        for _ in range(games):
            own = rng.standard_normal(4) + place + [better, 0, 0, 0] + rng.standard_normal()
            found.append(played(dict(zip(MODELS, own, strict=True)), start))
    return found


def shares(rng, **how):
    scores = scored(a_round(rng, **how), MODELS, LIKE)
    return np.array(list(score_weights(scores, TEMPERATURE).values()))


def test_scores_by_hand():
    # Excesses of a: (4 - 2) / 2 = 1, then 3: mean 2, deviation sqrt 2, error sqrt 2 / sqrt 2 = 1.
    games = [played({"a": 4, "b": 2}), played({"a": 7, "b": 1})]
    scores = scored(games, {"a": "x", "b": "y"}, {"a": "agent", "b": "agent"})
    assert scores == pytest.approx({"x": 2.0, "y": -2.0})
    # The same from two starts each: over starts the error is 1, over the four games 1 / sqrt 3.
    games = [played({"a": 2 * e, "b": 0}, start) for e, start in ((1, 0), (1, 0), (3, 1), (3, 1))]
    scores = scored(games, {"a": "x", "b": "y"}, {"a": "agent", "b": "agent"})
    assert scores == pytest.approx({"x": 2.0, "y": -2.0})


def test_whoever_holds_the_better_place_gains_nothing():
    games = [played({"hunter_0": 90 + i, "hare_0": i % 3}) for i in range(6)]
    models = {"hunter_0": "x", "hare_0": "y"}
    assert scored(games, models, {"hunter_0": "hunter", "hare_0": "hare"}) == {"x": 0, "y": 0}
    # Where two models hold both roles, each is compared with its like.
    games = [played({"hunter_0": 90 + i % 2, "hunter_1": 80, "hare_0": 5}) for i in range(6)]
    models = {"hunter_0": "x", "hunter_1": "y", "hare_0": "y"}
    roles = {"hunter_0": "hunter", "hunter_1": "hunter", "hare_0": "hare"}
    scores = scored(games, models, roles)
    assert scores["x"] > 20 > -20 > scores["y"]


def test_ends_of_what_can_be_told():
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


def test_equal_models_weigh_nearly_the_same_and_a_better_one_more():
    """Sixteen games a round, 400 rounds: the greatest share of four equal models."""
    rng = np.random.default_rng(0)
    equal = np.array([shares(rng) for _ in range(400)])
    assert np.allclose(equal.mean(axis=0), 0.25, atol=0.01)
    assert equal.max(axis=1).mean() < 0.33
    assert np.quantile(equal.max(axis=1), 0.95) < 0.45
    # Places that starts give out, twice as large as all other luck: few starts tell little of it.
    placed = [shares(rng, places=2.0).max() for _ in range(400)]
    assert np.mean(placed) < 0.46
    assert np.mean([shares(rng, places=2.0, starts=8, games=2).max() for _ in range(400)]) < 0.36
    better = np.array([shares(rng, better=1.5) for _ in range(400)])
    assert better[:, 0].mean() > 0.4 and (better[:, 0] > better[:, 1:].max(axis=1)).mean() > 0.95


def test_equal_models_take_turns_and_a_better_one_is_selected():
    def chosen(**how):
        rng, strategy, times = np.random.default_rng(1), selective(0.5, patience=99), []
        state = strategy.init(tuple(MODELS.values()))
        for number in range(200):
            scores = scored(a_round(rng, **how), MODELS, LIKE)
            gradients = {model: {"w": torch.ones(1)} for model in scores}
            given, state = strategy.on_gradients(gradients, state, RoundContext(number, 0, scores))
            times.append([own is not None for own in given.values()])
        return np.array(times)

    equal = chosen()
    assert np.allclose(equal.mean(axis=0), 0.5, atol=0.05)
    waits = [np.diff(np.flatnonzero(own)).max() for own in equal.T]
    assert max(waits) <= 6, "nobody is left out for long by luck"
    assert chosen(better=2.0)[:, 0].mean() > 0.9


def test_federated_by_samples_is_mcmahan():
    after = {"a": {"w": torch.tensor([4.0])}, "b": {"w": torch.tensor([8.0])}}
    strategy = federated()
    context = RoundContext(0, 0, {"a": 99.0, "b": -99.0}, {"a": 16, "b": 48})
    taken, _ = strategy.on_weights(after, after, strategy.init("ab"), context)
    assert taken["a"]["w"].item() == taken["b"]["w"].item() == 7.0  # (16 * 4 + 48 * 8) / 64
