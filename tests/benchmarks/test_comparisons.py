"""Algorithms at equal numbers of tokens and optimizer steps."""

import pytest

from benchmarks import comparisons
from benchmarks.claim import load
from srl_agents.episode import AgentStep, Decision, Episode, ModelVersion, Tokens
from srl_train.config import yaml_file

CLAIM = load("matched_algorithms")


@pytest.mark.parametrize("method", CLAIM.methods)
def test_passes_minibatches_and_bonus_are_those_of_the_cell(method, small):
    request = small("matched_algorithms", rollout__group_size=4)
    for cell, wanted in CLAIM.options["cells"].items():
        settings = comparisons.cell_settings(request, "whose", cell, method)
        found = yaml_file.from_tree({}, settings).algorithm
        assert [found.num_iterations, found.minibatches] == [*wanted.values()][:2]
        assert getattr(found, "entropy_coef", found.trl.get("entropy_coef")) == wanted["bonus"]


def test_runs_are_tuned_on_other_seeds_compared_and_kept(small, monkeypatch):
    ends = {  # method -> (seed, rate) -> score
        "GRPO": {(100, 0.1): 0.3, (100, 0.2): 0.5, (0, 0.2): 0.4, (1, 0.2): 0.6},
        "MAPPO": {(100, 0.1): 0.7, (100, 0.2): 0.2, (0, 0.1): 0.5, (1, 0.1): 0.9},
    }
    left = [(name, *run) for name, own in ends.items() for run in own]

    def train(exam, settings):
        method = "MAPPO" if "preset" in settings else "GRPO"
        run = settings["seed"], settings["algorithm.learning_rate"]
        left.remove((method, *run))  # ValueError for a second time
        return {"score": ends[method][run], "steps": len(method), "tokens": 4}

    monkeypatch.setattr(comparisons, "train_model", train)
    game = {**CLAIM.options["games"]["whose"], "cells": ["5x1+"]}
    options = {"tuning_seeds": [100], "rates": {"all": [0.1, 0.2]}, "games": {"whose": game}}
    options = {**CLAIM.options, **options}
    change = {"methods": {name: CLAIM.methods[name] for name in ends}, "options": options}
    request = small("matched_algorithms", games=4, seeds=(0, 1), change=change)
    rows = comparisons.matched_algorithms(request).rows
    assert not left and comparisons.matched_algorithms(request).rows == rows
    assert {row["method"]: row["rate"] for row in rows} == {"GRPO": 0.2, "MAPPO": 0.1}
    # 12.7062 standard errors of .1 on each side of .2: two seeds have one degree of freedom.
    assert "| +0.20 [-1.07, +1.47] |" in request.claim.tables[0].markdown(rows)
    steps, tokens = (target.checks(rows)[0].held for target in CLAIM.checks[:2])
    assert tokens and not steps


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
        played = [Episode("game", 0, {}, (turn,))]
        return comparisons.colour_exam("HowMuch", 1).score(played)["score"]

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
