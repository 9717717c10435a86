import json

import pytest

from benchmarks.repeats import Estimate
from benchmarks.training.unseen import maze


@pytest.mark.slow
def test_a_run_is_measured_in_mazes_it_never_saw(small):
    request = small(games=7, environment__options__max_cycles=6)
    result = maze.MAZE.measure(request)
    [run] = result.rows
    assert run["episodes"] == 8 and 1 <= run["trained_on"] <= 4
    assert run["trained_and_asked"] == 0 and run["held_out"] == 7
    # Eight moves at least lead through a 5x5 maze: in six nobody arrives.
    assert run["after"] == {"solved": Estimate(0.0, 0.0), "detour": None}
    text = maze.MAZE.markdown(result, request)
    assert text.count("\n| trained, seed 3 | 0.0% ± 0.0% | 0.0% ± 0.0% |") == 1
    assert text.count("\n| greedy_walker |  | 0.0% ± 0.0% |  |  |") == 1
    assert "Share of 7 held-out mazes" in text and "width 5" in text
    json.dumps([run, result.references], allow_nan=False)


def test_levels_are_distinct_and_walkers_differ():
    options = {"width": 5, "height": 5, "loop_share": 0.2, "max_cycles": 32, "mask_walls": True}
    exam = maze.held_out(options, 40)
    assert len(exam.identities) == 40
    walked = {name: exam.scripted(name) for name in ("random_walker", "explorer")}
    assert walked["explorer"]["solved"].mean == 1.0 and walked["explorer"]["detour"] < 1.3
    assert walked["random_walker"]["solved"].mean < 0.5


def test_models_are_compared_with_a_walker_that_needs_no_training():
    model, walker = Estimate(0.80, 0.03), Estimate(0.85, 0.04)
    assert maze.difference(model, walker) == pytest.approx((-0.05, 0.05))
