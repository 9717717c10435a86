"""Named algorithms at equal numbers of tokens."""

import pytest

from benchmarks import comparisons as table
from srl_agents.episode import AgentStep, Decision, Episode, ModelVersion, Tokens
from srl_train.config import yaml_file

GAME = {"env": "When", "settings": {"mode.name": "raw"}, "tokens": 100, "blind": ["magrpo"]}


def test_every_algorithm_fits_every_game(small):
    claim = small("named_algorithms").claim
    for game in claim.options["games"].values():
        for own in claim.methods.values():
            yaml_file.from_tree({}, {**claim.settings, **game["settings"], **own})


def test_statistics_are_those_of_the_runs(small, monkeypatch):
    ends = {"grpo": [0.5, 0.6, 0.7, 0.8], "magrpo": [0.1, 0.2, 0.3, 0.4]}

    def trained(exam, settings, tokens):
        after = ends[settings["preset"]][settings["seed"]]
        return {"after": after, "tokens": tokens + settings["seed"], "cpu_seconds": 2.0}

    monkeypatch.setattr(table, "train_to_tokens", trained)
    monkeypatch.setattr(table.HeldOut, "play", lambda self, policies: {"score": 0.2})
    methods = {
        name: {"preset": name, "algorithm.learning_rate": rate}
        for name, rate in (("grpo", 3e-3), ("magrpo", 1e-2))
    }
    change = {"methods": methods, "options": {"games": {"when": GAME}}}
    request = small("named_algorithms", games=8, seeds=(0, 1, 2, 3), change=change)
    result = table.named_algorithms(request)
    *runs, game = result.rows
    assert [row["share"] for row in runs[:2]] == pytest.approx([0.375, -0.125])  # of .2 to 1
    # The middle two of four: .6 and .7, .2 and .3.
    text = request.claim.markdown(result, request)
    assert "| grpo | 0.003 |  | 0.65 [" in text and "| magrpo | 0.01 |  | 0.25 [" in text
    assert game["highest"] == pytest.approx(0.5625)
    # Resampled interquartile means lie between .5 and .8, .1 and .4.
    assert 0.5 - 0.4 <= game["apart"] < 0.65 - 0.25
    assert "| before training |  |  | 0.20 |" in text and "| uniform |  |  | 0.20 |" in text
    assert "trained on: when 100 to 103." in text
    # magrpo falls below its start, and is listed as blind.
    assert all(check.held for check in request.claim.judge(result))


def test_tokens_of_all_answers_are_counted():
    def written(*tokens):
        return Decision(0, tokens=Tokens((), tokens, (0.0,) * len(tokens), ModelVersion("a", 0)))

    turn = (AgentStep("a", None, written(1, 2), 0.0), AgentStep("b", None, Decision(0), 0.0))
    assert (
        table.answer_tokens([Episode("game", 0, {}, (turn, turn)), Episode("game", 0, {}, (turn,))])
        == 6
    )


def test_coin_size_does_not_change_an_agents_weight():
    poor, rich = [1.0] * 4, [100.0] * 4

    def score(rewards):
        turn = tuple(
            AgentStep(f"agent_{agent}", None, Decision(0), reward)
            for agent, reward in enumerate(rewards)
        )
        return table.colour_exam("HowMuch", 1).score([Episode("game", 0, {}, (turn,))])["score"]

    assert score(poor + rich) == 1.0
    assert score([0.0] * 4 + rich) == score(poor + [0.0] * 4) == 0.5


@pytest.mark.slow
@pytest.mark.parametrize("env", ["Whose", "When"])
def test_run_ends_with_the_round_that_reaches_its_tokens(env, small):
    request = small("named_algorithms")
    settings = {**request.claim.settings, "preset": "mappo", **request.overrides, "rounds": 9}
    exam = table.colour_exam(env, 2)
    row = table.train_to_tokens(exam, settings, 1)
    longer = table.train_to_tokens(exam, settings, row["tokens"] + 1)
    assert longer["tokens"] > row["tokens"] >= 8
