"""Training where not every seat has a say in every turn: games in turns, seats without a turn."""

import numpy as np
import pytest

from srl_envs.wrappers import with_text
from srl_train.build import build_run
from srl_train.round import train_round
from tests.srl_envs.third_party_games import Nim, knock_out


def nim():
    return with_text(Nim(), rules="Take the last stick.", answers=("one", "two"))


@pytest.mark.parametrize("algorithm", ["grpo", "ppo"])
def test_a_seat_without_a_turn_in_some_games_trains_on_its_whole_groups(algorithm, short_run):
    run = build_run(
        short_run(
            rollout__group_size=2,
            rollout__groups_per_round=12,
            models__constrained=True,
            algorithm__name=algorithm,
        ),
        knock_out,
    )
    result = train_round(run, 0)
    first, second = (result.row["models"][f"model_{number}"] for number in (0, 1))
    groups = [result.episodes[start : start + 2] for start in range(0, 24, 2)]
    whole = sum(all(one.steps_of("player_1") for one in group) for group in groups)
    assert 0 < whole < 12
    assert (first["samples"], second["samples"]) == (24, 2 * whole)
    assert first["never_asked_by_agent"] == {"player_0": 0}
    assert second["never_asked_by_agent"] == {"player_1": 24 - 2 * whole}
    assert first["updated"] and np.isfinite([first["loss"], second["loss"]]).all()


@pytest.mark.parametrize("credit", ["per_agent", "agent_turn"])
@pytest.mark.parametrize("algorithm", ["grpo", "ppo"])
def test_passes_of_games_in_turns_are_neither_asked_for_nor_learned(algorithm, credit, short_run):
    if (algorithm, credit) == ("ppo", "agent_turn"):
        pytest.skip("PPO's critic assigns credit itself")
    run = build_run(
        short_run(
            rollout__groups_per_round=2,
            models__constrained=True,
            algorithm__name=algorithm,
            credit__name=credit,
        ),
        nim,
    )
    seen = {}
    for model, buffer in run.buffers.items():
        buffer.add = lambda samples, model=model, add=buffer.add: (
            seen.update({model: samples}), add(samples))[1]  # fmt: skip
    result = train_round(run, 0)
    steps = [step for one in result.episodes for turn in one.turns for step in turn]
    asked = [step for step in steps if step.decision.asked]
    assert len(asked) == sum(len(one.turns) for one in result.episodes)
    assert all(step.decision.action == 0 for step in steps if not step.decision.asked)
    for row in result.row["models"].values():
        assert row["updated"] and np.isfinite(row["loss"])
    lengths = {len(one.turns) for one in result.episodes}
    for samples in seen.values():
        for one in samples:
            assert sum(one.elapsed) + (one.group[2] == "player_2") in lengths
            # What the winner takes, or the loser pays, reaches its last answer.
            assert one.rewards[-1] != 0.0 and not any(one.rewards[:-1])
            for ids, mask in zip(one.allowed, one.mask, strict=True):
                assert mask == (ids is not None and len(ids) > 1)
