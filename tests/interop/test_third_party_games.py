"""Games from PettingZoo and MPE2, with words on top: checked, played and learned by models."""

import pettingzoo
import pytest

from srl_envs import check_environment
from srl_envs.wrappers import with_text

pytestmark = pytest.mark.interop

MOVES = ("stay", "go left", "go right", "go down", "go up")
NEEDS_PYGAME = "pygame is not installed, which the classic games import: make test-interop"
NEEDS_MPE2 = "mpe2 is not installed: make test-interop"


@pytest.fixture(autouse=True)
def what_the_classic_games_import():
    pytest.importorskip("pygame", reason=NEEDS_PYGAME)


def rps():
    """Simultaneous, by PettingZoo's aec_to_parallel."""
    return with_text(
        pettingzoo.make("aec", "classic/rps-v2", max_cycles=3),
        rules="Rock beats scissors, scissors beat paper, paper beats rock.",
        answers=("rock", "paper", "scissors"),
        describe=lambda agent, seen: f"You see: {(*'RPS', 'nothing yet')[seen]}",
    )


def speaker_and_listener():
    """Parallel; the seats have different actions."""
    mpe2 = pytest.importorskip("mpe2.simple_speaker_listener_v4", reason=NEEDS_MPE2)
    return with_text(
        mpe2.parallel_env(max_cycles=3),
        rules={
            "speaker_0": "Say a word from which the listener learns its landmark's colour.",
            "listener_0": "Go to the landmark that the speaker means.",
        },
        answers={"speaker_0": ("ba", "di", "gu"), "listener_0": MOVES},
    )


def squares(agent, seen):
    """Tic-tac-toe's nine squares; a number is one that is free."""
    own, others = (seen["observation"][:, :, plane].flatten() for plane in (0, 1))
    marks = zip(own, others, strict=True)
    shown = [
        "X" if mine else "O" if theirs else str(n) for n, (mine, theirs) in enumerate(marks, 1)
    ]
    return "\n".join(" ".join(shown[row : row + 3]) for row in (0, 3, 6))


def tic_tac_toe():
    """Play a turn-based game through turn_based_aec_to_parallel, with masks."""
    return with_text(
        pettingzoo.make("aec", "classic/tictactoe-v3"),
        rules="Three of your marks (X) in a row win; O is the other player.",
        answers=[str(square) for square in range(1, 10)],
        describe=squares,
    )


@pytest.mark.parametrize("game", [rps, speaker_and_listener, tic_tac_toe])
def test_keeps_every_promise_of_our_own_environments(game):
    check_environment(game)


@pytest.mark.parametrize("game", [rps, tic_tac_toe])
def test_two_models_play_and_learn(game, tmp_path):
    config = pytest.importorskip("srl_train.config.run")
    trainer_module = pytest.importorskip("srl_train.trainer")
    trainer = trainer_module.Trainer(
        config.RunConfig(
            models=config.ModelsConfig(count=2, constrained=True),
            rollout=config.RolloutConfig(group_size=4, groups_per_round=2),
            logging=config.LoggingConfig(evaluation_episodes=0),
            rounds=2,
        ),
        run_dir=tmp_path / "run",
        make_env=game,
        record_metrics=False,
    )
    rows = [trainer.train_round().row for _ in range(2)]
    for model in ("model_0", "model_1"):
        assert sum(row["models"][model]["weight_change"] for row in rows) > 0
        assert all(row["models"][model]["parse_failures"] == 0 for row in rows)
