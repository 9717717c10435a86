"""`srl play` with answers from standard input."""

import io
from pathlib import Path

import pytest

from srl_agents.episode import read_jsonl
from srl_agents.evaluation.replay import remade, replay
from srl_train import cli


@pytest.fixture
def play(monkeypatch, capsys):
    """Return a function (typed lines, *arguments) -> (exit code, stdout, stderr)."""

    def run(typed, *words):
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in typed)))
        code = cli.main(["play", *words])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_play_prints_a_complete_episode(play):
    typed = ["nonsense", "cooperate", "?", "compete"]
    code, out, _ = play(
        typed, "coop_compete_pair_v0", "--set", "max_cycles=2", "--set", "noise_std=0",
        "--seed", "1", "--opponent", "tit_for_tat",
    )  # fmt: skip
    assert code == 0
    assert out.startswith("coop_compete_pair_v0, seed 1. You are agent_0.")
    assert "You are agent_0, one of 2 players." in out and "Round 2 of 2." in out
    assert "coop_compete_v0 round 1/2" in out  # the picture
    assert "This answer is not valid:" in out and "Legal now: compete, cooperate" in out
    # In step 1 both cooperate. In step 2 agent_0 competes, tit_for_tat still cooperates.
    assert "agent_0 (you): cooperate  +0.85" in out and "agent_1: cooperate  +0.85" in out
    assert "agent_0 (you): compete  +0.6" in out and "agent_1: cooperate  +0.6" in out
    assert "The game is over after 2 rounds." in out
    assert "agent_0 (human): 1.450" in out and "agent_1 (tit_for_tat): 1.450" in out


@pytest.mark.parametrize("typed", [["cooperate", "q"], ["cooperate"]])
def test_leaving_early_prints_the_returns_so_far(play, typed):
    options = ("--set", "noise_std=0", "--opponent", "always_cooperate")
    code, out, err = play(typed, "coop_compete_pair_v0", *options)
    assert code == 0 and err == ""
    assert "The game ended early (agent_0 left the game) after 1 rounds." in out
    assert "agent_0 (human): 0.850" in out


def test_play_prints_the_outcome_of_a_negotiation(play):
    typed = ["walk away", "walk away", "pass", "walk away"]
    code, out, err = play(typed, "social_negotiation_v0", "--opponent", "boulware", "--seed", "0")
    assert (code, err) == (0, "") and "The game is over" in out
    assert "outcome: walked away" in out


def test_recorded_episodes_can_be_replayed(play, tmp_path):
    record = tmp_path / "games.jsonl"
    typed = ["compete", "cooperate", "cooperate", "q"]
    code, out, _ = play(
        typed, "coop_compete_v0", "--set", "max_cycles=2", "--seed", "4", "--episodes", "3",
        "--opponent", "always_compete", "--opponent", "agent_2=uniform", "--record", str(record),
    )  # fmt: skip
    assert code == 0 and f"written: {record}" in out
    whole, left = read_jsonl(record)  # The third episode did not start.
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
        (["bandit_v0", "--set", "a=[1"], "--set 'a=[1': not YAML"),
        (["maze_race_v0", "--opponent", "pavlov"], "pavlov cannot play maze_v0"),
        (["maze_race_v0", "--opponent", "agent_0=uniform"], "agent must be one of"),
        (["social_trading_v0", "--set", "messages=true"], "obs_mode must be 'llm'"),
    ],
)
def test_wrong_arguments_print_one_line(play, words, reason):
    code, _, err = play([], *words)
    assert code == 2 and err.startswith("srl: error: ") and err.count("\n") == 1 and reason in err


def test_opponent_may_be_a_model(play, tiny_folder):
    code, out, _ = play(
        ["cooperate"], "coop_compete_pair_v0", "--set", "max_cycles=1", "--opponent", tiny_folder,
        "--constrained",
    )  # fmt: skip
    assert code == 0 and f"agent_1 ({Path(tiny_folder).name}): 0." in out


def test_invalid_answers_of_an_opponent_are_shown(play, tmp_path, monkeypatch):
    (tmp_path / "rambler.py").write_text(
        "from srl_agents.episode import Decision\n"
        "from srl_agents.policy import PerAgentPolicy\n"
        "class Rambler(PerAgentPolicy):\n"
        "    def decide(self, seen, state):\n"
        "        return Decision(0, 'well...', parse_failure='no choice was named')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    words = ["--set", "max_cycles=1", "--opponent", "rambler:Rambler"]
    code, out, _ = play(["cooperate"], "coop_compete_pair_v0", *words)
    assert code == 0
    assert "the answer is invalid (no choice was named): well..." in out


def test_agents_that_are_not_to_move_are_shown_without_an_action(play):
    code, out, _ = play(["one"] * 7, "tests.srl_envs.third_party_games:nim")
    assert code == 0 and "(you): one" in out and "player_2: (not to move)" in out


def test_task_accepts_free_text(play):
    code, out, _ = play(["say 12", "?", "Answer: -1"], "math_v0", "--set", "max_cycles=2",
                        "--seed", "1")  # fmt: skip
    assert code == 0
    assert "You answer with any text" in out and "Legal now" not in out
    assert 'agent_0 (you): "say 12"' in out and 'agent_0 (you): "Answer: -1"' in out
    assert "The game is over after 2 rounds." in out
