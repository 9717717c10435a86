import numpy as np
import pytest

from benchmarks import general_suite as criteria
from benchmarks import run
from benchmarks.general_suite import (
    OUR,
    PERIOD,
    FictitiousPlayRuns,
    Late,
    ScriptedRuns,
    all_games,
    best_values,
    fair_values,
    memory_one,
)
from srl_agents.baselines.learners import SimplePGRuns
from srl_agents.scripted.memory_one import mirrored


def test_every_ordinal_game_occurs_once():
    games = all_games()
    ordinal = ~np.isclose(games.row_GKK + games.column_GKK, 1.0).all(axis=(1, 2))
    assert ordinal.sum() == 144

    def names(row, column):  # what renaming actions does not change
        pairs = np.stack([row, column], axis=2)
        return min(str(pairs[::a, ::b].tolist()) for a in (1, -1) for b in (1, -1))

    rows, columns = games.row_GKK[ordinal], games.column_GKK[ordinal]
    assert len({names(r, c) for r, c in zip(rows, columns, strict=True)}) == 144
    assert all(
        len(set(r.ravel())) == len(set(c.ravel())) == 4 for r, c in zip(rows, columns, strict=True)
    )
    classes = {min(names(r, c), names(c.T, r.T)) for r, c in zip(rows, columns, strict=True)}
    assert len(classes) == 78


def test_both_roles_of_a_game_are_in_the_same_half():
    games = all_games()
    assert 0.4 < games.held_G.mean() < 0.6
    half = {}
    for row, column, held in zip(games.row_GKK, games.column_GKK, games.held_G, strict=True):
        half[str((row.tolist(), column.tolist()))] = held
    for row, column, held in zip(games.row_GKK, games.column_GKK, games.held_G, strict=True):
        seats = [
            half.get(str((column.T[::a, ::b].tolist(), row.T[::a, ::b].tolist())))
            for a in (1, -1)
            for b in (1, -1)
        ]
        assert held in seats and (not held) not in seats


def test_fair_values_match_hand_computation():
    games = all_games()
    fair = fair_values(games)
    zero_sum = np.isclose(games.row_GKK + games.column_GKK, 1.0).all(axis=(1, 2))
    assert fair[zero_sum].sum(axis=1) == pytest.approx(1.0)
    dilemma = np.array([[0.5, 1.0], [0.25, 0.75]])
    [place] = [
        g
        for g in range(len(games))
        if any(
            np.array_equal(games.row_GKK[g][::a, ::b], dilemma)
            and np.array_equal(games.column_GKK[g][::a, ::b], dilemma.T)
            for a in (1, -1)
            for b in (1, -1)
        )
    ]
    assert fair[place] == pytest.approx([0.75, 0.75])


def test_replies_from_the_other_side():
    tables = memory_one()
    repeats, contrary = (mirrored(tables[name]) for name in ("tit_for_tat", "contrary"))
    assert repeats[1:].tolist() == [0, 0, 1, 1] == (1 - contrary[1:]).tolist()  # by our own action
    games = all_games()
    best = best_values(games, tables["always_1"], 4)
    assert best == pytest.approx(games.row_GKK[:, :, 1].max(axis=1))


def test_fictitious_play_is_a_best_response_to_observed_replies():
    # This partner does the opposite of our last action: only alternation matches it.
    game = np.array([[0.9, 0.6], [0.6, 0.75]])
    player, last = FictitiousPlayRuns([3]), np.zeros(1, np.int8)
    for _ in range(6):
        moves = []
        for t in range(16):
            other = np.ones(1, np.int8) if t == 0 else 1 - last
            last, _ = player.act()
            player.observe_opponent(other)
            moves.append((last[0], other[0]))
        own, met = np.array(moves, np.int8).T
        player.update(own[None], game[own, met][None])
    assert game[own, met].mean() > 0.8


def test_scripted_partners_reply_and_take_turns():
    tables = memory_one()
    chances = np.stack([tables["tit_for_tat"], tables["always_0"]])[:, None]
    player = ScriptedRuns([np.random.SeedSequence(0)], chances)
    for _episode in range(PERIOD + 1):
        seen = []
        for t in range(4):
            seen.append(int(player.act()[0][0]))
            player.observe_opponent(np.array([t % 2], np.int8))
        if _episode < PERIOD:
            assert seen == [1, 0, 1, 0]
        player.update(np.zeros((1, 4), np.int8), np.zeros((1, 4)))
    assert seen == [0, 0, 0, 0]


def test_late_player_learns_from_its_own_rounds():
    class Recorder(SimplePGRuns):
        def update(self, own_NT, reward_NT):
            self.lengths.append(own_NT.shape[1])

    inner = Recorder([0])
    inner.lengths = []
    late = Late([0], lambda seeds: inner, delay=6, seed=0)
    for _ in range(3):
        for _ in range(4):
            late.act()
            late.observe_opponent(np.zeros(1, np.int8))
        late.update(np.zeros((1, 4), np.int8), np.zeros((1, 4)))
    assert inner.lengths == [2, 4]


def test_criteria_match_hand_computation():
    found = {
        "memory_one": ["a"],
        "switching": ["b"],
        "earned": {
            OUR: {"a": [[0.9], [0.4]], "b": [[0.5], [0.5]]},
            "other": {"a": [[1.0], [0.5]], "b": [[0.4], [0.4]]},
        },
        "best": {"a": [1.0, 0.5], "b": [0.5, 1.0]},
        "maximin": [0.5, 0.5],
        "fair": [[0.8, 0.4], [0.5, 0.5]],
        "self_play": {
            OUR: [[[0.8, 0.3]], [[0.5, 0.5]]],
            "OUR, out of step": [[[0.8, 0.4]], [[0.5, 0.5]]],
        },
        "held": [True, True],
    }
    scores = criteria.criteria(found, np.array([True, True]))
    assert scores["targeted optimality"][OUR] == {"a": pytest.approx([0.9, 0.8])}
    assert scores["switching partners"][OUR] == {"b": pytest.approx([1.0, 0.5])}
    assert scores["safety"][OUR]["a"] == pytest.approx([1.8, 0.8])
    assert scores["self-play"][OUR] == {"itself": pytest.approx([0.75, 1.0])}
    held = {check.claim: check.held for check in criteria.checks(found)}
    assert not held["targeted optimality: mean at least 0.98 of the best method's"]
    assert not held["safety: never below 0.95 of maximin"]
    assert not held["self-play of OUR: mean at least 0.97 of the fair outcome"]
    assert held["self-play of OUR, out of step: mean at least 0.97 of the fair outcome"]


@pytest.mark.slow
def test_command_prints(capsys):
    assert run.main(["--suite", "general", "--episodes", "1", "--horizon", "4"]) == 1
    shown = capsys.readouterr().out  # nothing is learnt in four rounds
    assert "NOT HELD: self-play" in shown and "77 games held out" in shown
