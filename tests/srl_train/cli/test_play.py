"""`srl play`, driven by lines on standard input that is no terminal."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from srl_agents.episode import read_jsonl
from srl_agents.evaluation.replay import remade, replay
from srl_train import cli
from tests.test_shape import TORCH_FAMILY

ROOT = Path(__file__).parents[3]


@pytest.fixture
def play(monkeypatch, capsys):
    """(lines typed, arguments) -> (exit code, what was printed, errors)."""

    def run(typed, *words):
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in typed)))
        code = cli.main(["play", *words])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_a_whole_game(play):
    typed = ["nonsense", "cooperate", "?", "compete"]
    code, out, _ = play(
        typed, "coop_compete_pair_v0", "--set", "max_cycles=2", "--set", "noise_std=0",
        "--seed", "1", "--opponent", "tit_for_tat",
    )  # fmt: skip
    assert code == 0
    assert out.startswith("coop_compete_pair_v0, seed 1. You are agent_0.")
    assert "You are agent_0, one of 2 players." in out and "Round 2 of 2." in out
    assert "coop_compete_v0 round 1/2" in out  # the picture
    assert "That was not read:" in out and "Legal now: compete, cooperate" in out
    # Both cooperate; then agent_0 competes against what tit for tat answers to that.
    assert "agent_0 (you): cooperate  +0.85" in out and "agent_1: cooperate  +0.85" in out
    assert "agent_0 (you): compete  +0.6" in out and "agent_1: cooperate  +0.6" in out
    assert "The game is over after 2 rounds." in out
    assert "agent_0 (human): 1.450" in out and "agent_1 (tit_for_tat): 1.450" in out


@pytest.mark.parametrize("typed", [["cooperate", "q"], ["cooperate"]])
def test_leaving_early_tells_the_score_so_far(play, typed):
    options = ("--set", "noise_std=0", "--opponent", "always_cooperate")
    code, out, err = play(typed, "coop_compete_pair_v0", *options)
    assert code == 0 and err == ""
    assert "This game has up to 1000 rounds; --set max_cycles=10 makes it shorter." in out
    assert "The game ended early (agent_0 left the game) after 1 rounds." in out
    assert "agent_0 (human): 0.850" in out


def test_an_interrupt_at_the_prompt_leaves_the_game(play, monkeypatch):
    def interrupted(prompt):
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", interrupted)
    code, out, _ = play([], "bandit_v0", "--set", "max_cycles=3")
    assert code == 0 and "agent_0 left the game" in out


@pytest.mark.parametrize(
    ("typed", "words", "said"),
    [
        (["right", "left"], ["bandit_v0", "--set", "max_cycles=2"], "agent_0 (you): right"),
        (
            ["right"] * 3,
            ["maze_race_v0", "--set", "max_cycles=3", "--opponent", "explorer", "--seed", "2"],
            "winner: draw",
        ),
        (
            ["cooperate"],
            ["team_battle_v0", "--set", "max_cycles=1", "--agent", "blue_1"],
            "blue_1 (you): cooperate",
        ),
        (
            ["offer 9 coin for 1 apple to agent_1", "offer 1 coin for 1 apple to agent_1"],
            ["social_trading_v0", "--set", "max_cycles=1", "--opponent", "truthful_trader"],
            "agent_0 (you): offer 1 coin for 1 apple to agent_1  +0",
        ),
        (
            ["walk away", "walk away", "pass", "walk away"],
            ["social_negotiation_v0", "--opponent", "boulware", "--seed", "0"],
            "outcome: walked away",
        ),
        (
            ["compete"],
            ["staged_v0", "--set", "max_cycles=1", "--set", "warmup_episodes=1"],
            "agent_7 (uniform): 0.700",
        ),
    ],
)  # fmt: skip
def test_every_kind_of_game(play, typed, words, said):
    code, out, err = play(typed, *words)
    assert (code, err) == (0, "") and said in out and "The game is over" in out


def test_words_reach_the_others(play, tmp_path):
    record = tmp_path / "games.jsonl"
    typed = ["say deal with me", "pass", "pass"]
    code, out, _ = play(
        typed, "social_negotiation_v0", "--set", "messages=true", "--set", "obs_mode=llm",
        "--set", "max_cycles=2", "--record", str(record), "--no-picture",
    )  # fmt: skip
    assert code == 0 and 'agent_0 (you): "deal with me" pass' in out
    assert "social_negotiation_v0 round" not in out
    [episode] = read_jsonl(record)
    assert episode.steps_of("agent_1")[1].observation["messages"] == 'agent_0 says: "deal with me"'


def test_several_games_are_recorded_and_play_again(play, tmp_path):
    record = tmp_path / "games.jsonl"
    typed = ["compete", "cooperate", "cooperate", "q"]
    code, out, _ = play(
        typed, "coop_compete_v0", "--set", "max_cycles=2", "--seed", "4", "--episodes", "3",
        "--opponent", "always_compete", "--opponent", "agent_2=uniform", "--record", str(record),
    )  # fmt: skip
    assert code == 0 and f"recorded in {record}" in out
    whole, left = read_jsonl(record)  # the third was never begun
    assert (whole.seed, left.seed) == (4, 5) and whole.failure is None
    assert whole.seats == {
        "agent_0": "human", "agent_1": "always_compete", "agent_2": "uniform",
        "agent_3": "always_compete",
    }  # fmt: skip
    assert left.failure == "BackendError: agent_0 left the game" and len(left.turns) == 1
    for episode in (whole, left):
        assert len(list(replay(episode, remade(episode)))) == 1 + len(episode.turns)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["coop_compete"], "there is no environment 'coop_compete'"),
        (["bandit_v0", "--agent", "left"], "--agent is 'left'; allowed: agent_0"),
        (["bandit_v0", "--set", "arms"], "--set 'arms': must be KEY=VALUE"),
        (["bandit_v0", "--set", "a=[1"], "--set 'a=[1': the value: not YAML"),
        (["bandit_v0", "--episodes", "0"], "--episodes is 0: give 1 to 100000"),
        (["bandit_v0", "--seed", "-1"], "--seed is -1: give 0 to 4294967295"),
        (["bandit_v0", "--record", "/proc/no.jsonl"], "--record: cannot write /proc/no.jsonl"),
        (["maze_race_v0", "--opponent", "nobody"], "unknown player 'nobody': give 'tiny'"),
        (["maze_race_v0", "--opponent", "pavlov"], "pavlov cannot play maze_v0"),
        (
            ["maze_race_v0", "--opponent", "agent_0=uniform"],
            "no agent 'agent_0'",
        ),
        (["social_trading_v0", "--set", "messages=true"], "needs obs_mode='llm'"),
    ],
)
def test_what_does_not_fit_is_one_line(play, words, reason):
    code, _, err = play([], *words)
    assert code == 2 and err.startswith("srl: error: ") and err.count("\n") == 1 and reason in err


def test_a_model_takes_a_seat(play, tiny_folder):
    code, out, _ = play(
        ["cooperate"], "coop_compete_pair_v0", "--set", "max_cycles=1", "--opponent", tiny_folder,
        "--constrained",
    )  # fmt: skip
    assert code == 0 and f"agent_1 ({Path(tiny_folder).name}): 0." in out


def test_classic_opponents_need_no_torch():
    script = (
        "import sys; from srl_train.cli import main\n"
        "code = main(['play', 'coop_compete_v0', '--set', 'max_cycles=1'])\n"
        f"print('HEAVY', sorted({TORCH_FAMILY} & set(sys.modules)), code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], input="cooperate\n", capture_output=True, text=True,
        cwd=ROOT, check=False, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "HEAVY [] 0", done.stderr


def test_a_task_is_answered_in_ones_own_words(play):
    code, out, _ = play(["say 12", "?", "Answer: -1"], "math_v0", "--set", "max_cycles=2",
                        "--seed", "1")  # fmt: skip
    assert code == 0
    assert "You answer in your own words" in out and "Legal now" not in out
    assert 'agent_0 (you): "say 12"' in out and 'agent_0 (you): "Answer: -1"' in out
    assert "The game is over after 2 rounds." in out
