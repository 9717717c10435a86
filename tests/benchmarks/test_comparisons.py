"""Algorithms at equal numbers of tokens and optimizer steps."""

import pytest

from benchmarks import comparisons
from benchmarks.claim import load
from srl_agents.episode import AgentStep, Decision, Episode, ModelVersion, Tokens
from srl_train.config import yaml_file

CLAIM = load("matched_algorithms")
CELLS = [(game, cell) for game, own in CLAIM.options["games"].items() for cell in own["cells"]]
TRAINED = {
    "GRPO": {100: {0.1: 0.3, 0.2: 0.5}, 0: {0.2: 0.4}, 1: {0.2: 0.6}},
    "MAPPO": {100: {0.1: 0.7, 0.2: 0.2}, 0: {0.1: 0.5}, 1: {0.1: 0.9}},
}
"""Score by method, seed and learning rate; a seed after tuning knows only the best rate."""


@pytest.fixture
def trained(small, monkeypatch):
    """Return a function that measures the claim with the scores of TRAINED, and lists the runs."""
    runs = []

    def train(exam, settings):
        method = "MAPPO" if settings.get("preset") == "mappo" else "GRPO"
        seed, rate = settings["seed"], settings["algorithm.learning_rate"]
        runs.append((method, seed, rate))
        more = 1 if method == "MAPPO" and seed == 1 else 0
        return {"score": TRAINED[method][seed][rate], "steps": 8 + more, "tokens": 40}

    monkeypatch.setattr(comparisons, "train_model", train)
    options = {
        **CLAIM.options, "rates": {"all": [0.1, 0.2]}, "tuning_seeds": [100],
        "games": {"whose": {**CLAIM.options["games"]["whose"], "cells": ["5x1+"]}},
    }  # fmt: skip
    methods = {name: CLAIM.methods[name] for name in TRAINED}
    change = {"methods": methods, "options": options}
    return runs, small("matched_algorithms", games=4, seeds=(0, 1), change=change)


@pytest.mark.parametrize("method", CLAIM.methods)
def test_passes_minibatches_and_bonus_are_those_of_the_cell(method, small):
    request = small("matched_algorithms", rollout__group_size=4)
    for game, cell in CELLS:
        wanted = CLAIM.options["cells"][cell]
        config = yaml_file.from_tree({}, comparisons.cell_settings(request, game, cell, method))
        found = config.algorithm
        assert found.num_iterations == wanted["passes"]
        assert found.minibatches == wanted["minibatches"]
        bonus = getattr(found, "entropy_coef", found.trl.get("entropy_coef"))
        assert bonus == wanted["bonus"]


def test_rates_are_tuned_on_other_seeds_and_scores_compared_with_grpo(trained):
    _, request = trained
    result = comparisons.matched_algorithms(request)
    rates = {row["method"]: row["rate"] for row in result.rows}
    assert rates == {"GRPO": 0.2, "MAPPO": 0.1}
    gaps = [row["gap"] for row in result.rows if row["method"] == "MAPPO"]
    assert gaps == pytest.approx([0.1, 0.3])
    text = request.claim.tables[0].markdown(result.rows)
    # 12.7062 standard errors of .1 on each side of .2: two seeds have one degree of freedom.
    assert "| +0.20 [-1.07, +1.47] |" in text


def test_unequal_steps_fail_the_check(trained):
    _, request = trained
    result = comparisons.matched_algorithms(request)
    for target in request.claim.checks[:2]:  # steps, tokens
        [check] = target.checks(result.rows)
        assert check.held == (target.value == "more_tokens")


def test_interrupted_measurement_repeats_no_run(trained):
    runs, request = trained
    first = comparisons.matched_algorithms(request)
    assert len(runs) == len(set(runs)) == 8
    assert comparisons.matched_algorithms(request).rows == first.rows
    assert len(runs) == 8


def test_table_of_logits_learns_with_as_many_steps(small):
    request = small("matched_algorithms", rounds=8, rollout__group_size=8)
    exam = comparisons.colour_exam("Whose", 64)
    settings = comparisons.cell_settings(request, "whose", "5x4", "table") | {"seed": 3}
    scores = []
    for rate in (1e-9, 0.3):
        row = comparisons.train_table(exam, settings | {"algorithm.learning_rate": rate})
        assert row["steps"] == 8 * 5 * 4
        scores.append(row["score"])
    assert 0.2 < scores[0] < 0.3 and scores[1] > 0.7


def test_tokens_of_all_answers_are_counted():
    def written(*tokens):
        return Decision(0, tokens=Tokens((), tokens, (0.0,) * len(tokens), ModelVersion("a", 0)))

    turn = (AgentStep("a", None, written(1, 2), 0.0), AgentStep("b", None, Decision(0), 0.0))
    episodes = [Episode("game", 0, {}, (turn, turn)), Episode("game", 0, {}, (turn,))]
    assert comparisons.answer_tokens(episodes) == 6


def test_coin_size_does_not_change_an_agents_weight():
    poor, rich = [1.0] * 4, [100.0] * 4

    def score(rewards):
        turn = tuple(
            AgentStep(f"agent_{agent}", None, Decision(0), reward)
            for agent, reward in enumerate(rewards)
        )
        exam = comparisons.colour_exam("HowMuch", 1)
        return exam.score([Episode("game", 0, {}, (turn,))])["score"]

    assert score(poor + rich) == 1.0
    assert score([0.0] * 4 + rich) == score(poor + [0.0] * 4) == 0.5


@pytest.mark.slow
@pytest.mark.parametrize("method", ["GRPO", "GSPO", "MAPPO"])
def test_every_algorithm_makes_the_steps_of_its_cell(method, small):
    request = small("matched_algorithms", rollout__group_size=4)
    settings = comparisons.cell_settings(request, "when", "1x4", method) | {"seed": 3}
    row = comparisons.train_model(comparisons.colour_exam("When", 2), settings)
    assert row["steps"] == 2 * 4  # rounds x minibatches
    assert row["tokens"] >= 2 * 8 * 8  # rounds x episodes x turns
