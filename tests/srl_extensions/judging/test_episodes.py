"""Episodes of evaluations: resuming, limits, retries and progress."""

import asyncio
import json
import logging
import signal
import subprocess
import sys
import time

import pytest

from srl_agents.episode import Decision, read_jsonl
from srl_agents.errors import BackendError
from srl_agents.evaluation import progress
from srl_agents.scripted.registry import classic_policy
from srl_envs.scenarios import scenario
from srl_extensions.judging.episodes import EpisodePlan, EpisodeRunner
from srl_extensions.judging.scenarios import play_scenario, scored
from srl_train import cli
from srl_train.run_files import RunFiles

PAVLOV = "coop_compete_pair_v0.pavlov"
PAIR = scenario(PAVLOV)
EVAL = ["eval", "--scenario", PAVLOV, "--policy", "uniform", "--episodes", "6"]
CROSSPLAY = [
    "crossplay", "uniform", "tit_for_tat", "--environment", "coop_compete_pair_v0",
    "--set", "max_cycles=4", "--episodes", "3",
]  # fmt: skip
KILLED = """
import os, signal, sys
from srl_extensions.judging import episodes
from srl_train import cli
from srl_train.run_files import RunFiles
written, to_json = 0, episodes.to_json

def to_json_until_killed(episode):
    global written
    if written == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    written += 1
    return to_json(episode)

episodes.to_json = to_json_until_killed
cli.main(sys.argv[1:])
"""


def command(words, folder):
    """Return the command line that writes into a folder, and the files of episodes and results."""
    if words[0] == "eval":
        results = folder / "scores.json"
        words = [*words, "--record", str(folder / "games"), "--out", str(results)]
        return words, folder / "games" / f"{PAVLOV}.jsonl", results
    words = [*words, "--out", str(folder)]
    return words, folder / "games" / "coop_compete_pair_v0.jsonl", folder / "results.json"


def test_a_name_with_slashes_is_one_file(tmp_path):
    seats = dict.fromkeys(PAIR.make().possible_agents, classic_policy("bully", PAIR.make()))
    plan = EpisodePlan(PAIR.make, seats, 1, 1, {}, {})
    EpisodeRunner(folder=tmp_path).play("grpc://127.0.0.1:50051/coop_compete_pair_v0", [plan])
    [path] = tmp_path.iterdir()
    assert len(list(read_jsonl(path))) == 1


@pytest.mark.parametrize("words", [EVAL, CROSSPLAY])
def test_a_killed_command_resumes_to_the_same_results(words, tmp_path):
    whole, _, expected = command(words, tmp_path / "whole")
    assert cli.main(whole) == 0
    resumed, episodes, results = command(words, tmp_path / "killed")
    ended = subprocess.run([sys.executable, "-c", KILLED, *resumed], check=False)
    assert ended.returncode == -signal.SIGKILL and not results.exists()
    before = episodes.read_bytes()
    assert before.count(b"\n") == 4
    episodes.write_bytes(before + before[:200])  # a line that the kill tore
    assert cli.main([*resumed, "--resume", "--concurrency", "2"]) == 0
    assert json.loads(results.read_text()) == json.loads(expected.read_text())
    assert episodes.read_bytes().startswith(before)
    numbers = [episode.extra["number"] for episode in read_jsonl(episodes)]
    assert numbers == list(range(len(numbers))) and len(numbers) > 4


@pytest.mark.parametrize("words", [EVAL, CROSSPLAY])
def test_another_command_line_is_refused(words, tmp_path, capsys):
    words, episodes, _ = command(words, tmp_path)
    assert cli.main(words) == 0
    before = episodes.read_bytes()
    assert cli.main([*words, "--resume", "--seed", "1"]) == 2
    assert "seed (1, was 0)" in capsys.readouterr().err
    assert cli.main(words) == 2
    assert "already exists: continue with --resume" in capsys.readouterr().err
    assert episodes.read_bytes() == before
    assert cli.main([*EVAL, "--resume"]) == 2
    assert "--record" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (lambda text: text.replace('"number": 0', '"number": 99'), "another command"),
        (lambda text: text.replace('"number": 0', '"numbers": 0'), "another command"),
        (lambda text: text.replace(PAVLOV, "coop_compete_pair_v0.grim"), "another command"),
        (lambda text: text.replace('"seed": ', '"seed": 1'), "another command"),
        (lambda text: "no episode\n", "JSON"),
    ],
)
def test_records_of_other_episodes_are_refused(line, named, tmp_path, capsys):
    words, episodes, _ = command(EVAL, tmp_path)
    assert cli.main(words) == 0
    first, *others = episodes.read_text().splitlines(keepends=True)
    episodes.write_text("".join([line(first), *others]))
    assert cli.main([*words, "--resume"]) == 2
    assert named in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "{", "[1]", "3"])
def test_a_damaged_command_line_is_refused(content, tmp_path, capsys):
    words, *_ = command(EVAL, tmp_path)
    assert cli.main(words) == 0
    (tmp_path / "games" / "command.json").write_text(content)
    assert cli.main([*words, "--resume"]) == 2
    assert "command.json" in capsys.readouterr().err


def test_two_processes_do_not_write_to_one_folder(tmp_path, capsys):
    words, *_ = command(EVAL, tmp_path)
    assert cli.main(words) == 0
    lock = RunFiles(tmp_path / "games", tmp_path).lock()
    assert cli.main([*words, "--resume"]) == 2
    assert "in use" in capsys.readouterr().err
    lock.release()
    assert cli.main([*words, "--resume"]) == 0


class Waiting:
    """Language-model-like policy that waits, and counts concurrent requests."""

    name = "waiting"

    def __init__(self, seconds=0.001):
        self.seconds, self.now, self.most = seconds, 0, 0

    def start(self, seed):
        return seed

    async def act(self, seen, states):
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.now -= 1
        return [Decision(1) for _ in seen], states

    def leave(self, state):
        pass


def test_concurrency_limits_the_episodes_in_flight():
    for limit in (3, 64):
        policy = Waiting()
        play_scenario(PAIR, policy, 8, runner=EpisodeRunner(concurrency=limit))
        assert policy.most == min(limit, 8)


class Sleeping(Waiting):
    """Policy that blocks the event loop."""

    def act(self, seen, states):
        time.sleep(self.seconds)
        return [Decision(1) for _ in seen], states


@pytest.mark.parametrize("slow", [Waiting(10.0), Sleeping(0.02)])
def test_a_slow_episode_fails_with_the_time_limit_as_reason(slow):
    runner = EpisodeRunner(timeout=0.5)
    played = play_scenario(PAIR, [Sleeping(0.0), slow], 4, runner=runner)
    failures = [episode.failure for episode in played]
    assert failures[0::2] == [None, None]
    assert all("within 0.5 seconds" in failure for failure in failures[1::2])
    assert scored(PAIR, played, 0).failed == 2


class FailsFirst(Waiting):
    """Policy whose first `failures` requests fail."""

    def __init__(self, failures):
        self.failures, self.seeds = failures, []

    def start(self, seed):
        self.seeds.append(seed)
        return seed

    def act(self, seen, states):
        if self.failures:
            self.failures -= 1
            raise BackendError("overloaded")
        return [Decision(1) for _ in seen], states


def test_failed_episodes_are_retried_with_the_same_seeds():
    policy = FailsFirst(failures=1)
    first, second = play_scenario(PAIR, policy, 2, runner=EpisodeRunner(retries=1))
    assert first.failure is None and second.failure is None
    assert policy.seeds[0] == policy.seeds[2] != policy.seeds[1]
    policy = FailsFirst(failures=3)
    first, second = play_scenario(PAIR, policy, 2, runner=EpisodeRunner(retries=1))
    assert "overloaded" in first.failure and second.failure is None


def test_progress_counts_episodes_and_estimates_the_remaining_time(caplog, monkeypatch):
    monkeypatch.setattr(progress, "FIRST", 0.0)
    monkeypatch.setattr(progress, "BETWEEN", 0.0)
    with caplog.at_level(logging.INFO):
        play_scenario(PAIR, Waiting(), 4, runner=EpisodeRunner(concurrency=2))
    lines = [record.getMessage() for record in caplog.records]
    assert any("0 of 4 episodes finished, 2 in flight, 0 failed" in line for line in lines)
    assert lines[-1].endswith("4 of 4 episodes finished, 0 in flight, 0 failed, "
                              "remaining time 0:00:00")  # fmt: skip
