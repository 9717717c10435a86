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


def spread():
    """Parallel; the observation is a vector without names."""
    mpe2 = pytest.importorskip("mpe2.simple_spread_v3", reason=NEEDS_MPE2)
    return with_text(
        mpe2.parallel_env(N=2, max_cycles=3),
        rules="Cover both landmarks together, and do not collide.",
        answers=MOVES,
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
    """In turns, by PettingZoo's turn_based_aec_to_parallel, with masks."""
    return with_text(
        pettingzoo.make("aec", "classic/tictactoe-v3"),
        rules="Three of your marks (X) in a row win; O is the other player.",
        answers=[str(square) for square in range(1, 10)],
        describe=squares,
    )


def connect_four():
    """In turns; the board reads from its space alone."""
    return with_text(
        pettingzoo.make("aec", "classic/connect_four-v3"),
        rules="Drop discs into columns; four of yours in a row win. Plane 1 is yours.",
        answers=[f"column {column}" for column in range(1, 8)],
    )


@pytest.mark.parametrize("game", [rps, spread, speaker_and_listener, tic_tac_toe, connect_four])
def test_keeps_every_promise_of_our_own_environments(game):
    check_environment(game)


def test_tic_tac_toe_is_the_game_that_is_shown():
    game = tic_tac_toe()
    seen, _ = game.reset(seed=0)
    for turn, square in enumerate((1, 4, 2, 5, 3)):  # X takes the first row
        mover, other = ("player_1", "player_2") if turn % 2 == 0 else ("player_2", "player_1")
        assert str(square) in squares(mover, seen[mover])
        seen, rewards, terminations, _, _ = game.step({mover: square, other: 0})
    assert squares("player_1", seen["player_1"]) == "X X X\nO O 6\n7 8 9"
    assert rewards == {"player_1": 1.0, "player_2": -1.0} and all(terminations.values())


@pytest.mark.parametrize("game", [rps, spread, tic_tac_toe])
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
