"""The table of named algorithms: its settings, its statistics, and runs that are measured once."""

import dataclasses
import json

import pytest

from benchmarks.training.claim import Request
from benchmarks.training.credit import named_algorithms as table
from srl_agents.episode import AgentStep, Decision, Episode, ModelVersion, Tokens
from srl_extensions.research.branching import BranchedEpisode, Siblings
from srl_train.config import yaml_file

TWO = {name: table.ALGORITHMS[name] for name in ("grpo", "magrpo")}


@pytest.mark.parametrize("game", table.GAMES)
@pytest.mark.parametrize("algorithm", table.ALGORITHMS)
def test_every_algorithm_fits_every_game(algorithm, game):
    settings = {**table.SHARED, **table.GAMES[game].settings, **table.ALGORITHMS[algorithm]}
    yaml_file.from_tree({}, settings)
    assert table.CHOSEN[algorithm] in table.RATES


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """Measures runs that are made up; returns what was asked for."""
    asked = []
    ends = {"grpo": [0.5, 0.6, 0.7, 0.8], "magrpo": [0.1, 0.2, 0.3, 0.4]}

    def trained(game, settings, games):
        asked.append(settings)
        name = settings["preset"]
        return {
            "after": ends[name][settings["seed"]], "tokens": game.tokens + settings["seed"],
            "steps_left_out": 0, "curve": [0.0], "cpu_seconds": 2.0, "wall_seconds": 3.0,
        }  # fmt: skip

    monkeypatch.setattr(table, "_trained", trained)
    monkeypatch.setattr(table, "_untrained", lambda game, request: 0.2)
    monkeypatch.setattr(table, "_uniform", lambda game, games: 0.2)

    def measure(seeds, **overrides):
        request = Request(seeds, tmp_path, 8, overrides)
        games = {"when": dataclasses.replace(table.GAMES["when"], tokens=100, blind=("magrpo",))}
        return request, table.measure(request, TWO, games)

    return measure, asked


def test_the_statistics_are_those_of_the_runs(measured, tmp_path):
    request, result = measured[0]((0, 1, 2, 3))
    *runs, told = result.rows
    assert [row["share"] for row in runs[:2]] == pytest.approx([0.375, -0.125])  # of .2 to 1
    # The middle two of four: .6 and .7, .2 and .3.
    text = table.NAMED_ALGORITHMS.markdown(result, request)
    rate = table.CHOSEN
    assert f"| grpo | {rate['grpo']:g} |  | 0.65 [" in text
    assert f"| magrpo | {rate['magrpo']:g} |  | 0.25 [" in text
    assert (told["best"], told["worst"]) == ("grpo", "magrpo")
    assert told["highest"] == pytest.approx(0.5625)
    # Resampled interquartile means lie between .5 and .8, .1 and .4.
    assert 0.5 - 0.4 <= told["apart"] < 0.65 - 0.25
    assert "| before training |  |  | 0.20 |" in text and "| uniform |  |  | 0.20 |" in text
    assert "branches counted: when 100 to 103." in text
    # magrpo falls below its start, and is said not to see.
    assert all(check.held for check in table.NAMED_ALGORITHMS.checks(result))
    table.NAMED_ALGORITHMS.figure.draw(result.rows, tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_runs_that_were_measured_are_not_made_again(measured):
    measure, asked = measured
    _, first = measure((0, 1))
    assert len(asked) == 4
    _, again = measure((0, 1, 2))
    assert [own["seed"] for own in asked[4:]] == [2, 2]
    assert again.rows[:4] == first.rows[:4]
    measure((0,), **{"algorithm.learning_rate": 0.02})
    assert len(asked) == 8


def test_answers_in_branches_are_counted_and_the_one_played_among_them_once():
    def written(*tokens):
        return Decision(0, tokens=Tokens((), tokens, (0.0,) * len(tokens), ModelVersion("a", 0)))

    played, other = written(1, 2), written(1, 2, 3)
    turn = (AgentStep("a", None, played, 0.0), AgentStep("b", None, Decision(0), 0.0))
    plain = Episode("game", 0, {}, (turn,))
    drawn = Siblings("a", 0, (played, other), (0.0, 0.0))
    branched = BranchedEpisode("game", 0, {}, (turn,), siblings=(drawn,))
    assert table.answer_tokens([plain]) == 2
    assert table.answer_tokens([plain, branched]) == 2 + 5


def test_an_agent_with_small_coins_counts_as_much_as_one_with_large_ones():
    poor, rich = [1.0] * 4, [100.0] * 4

    def score(rewards):
        turn = tuple(
            AgentStep(f"agent_{agent}", None, Decision(0), reward)
            for agent, reward in enumerate(rewards)
        )
        return table.GAMES["how_much"].score([Episode("game", 0, {}, (turn,))])["score"]

    assert score(poor + rich) == 1.0
    assert score([0.0] * 4 + rich) == score(poor + [0.0] * 4) == 0.5


@pytest.mark.slow
@pytest.mark.parametrize("game", table.GAMES)
def test_a_run_ends_with_the_round_in_which_its_tokens_are_written(game, small):
    request = small(games=2)
    del request.overrides["rounds"]
    one = {"mappo": table.ALGORITHMS["mappo"]}

    def measured(tokens):
        own = {game: dataclasses.replace(table.GAMES[game], tokens=tokens)}
        return table.measure(request, one, own).rows[0]

    row = measured(1)
    assert len(row["curve"]) == 1
    longer = measured(row["tokens"] + 1)
    assert len(longer["curve"]) == 2 and longer["tokens"] > row["tokens"] >= 8
    assert row["steps_left_out"] == 0
    json.dumps(row)
