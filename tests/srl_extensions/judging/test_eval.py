"""`srl eval`: policies, scenarios, scores, files and refusals."""

import errno
import json
import os
import re
import shutil

import pytest

from srl_envs import scenarios
from srl_train import cli
from srl_train.trainer import Trainer

PAVLOV = "coop_compete_pair_v0.pavlov"
FEW = ["--episodes", "2", "--scenario", PAVLOV]


@pytest.fixture(scope="module")
def trained(tmp_path_factory, short_run):
    """Return the folders of two runs, one with full models and one with adapters."""

    def train(name, adapters=None):
        folder = tmp_path_factory.mktemp("runs") / name
        config = short_run(models__constrained=True, models__adapters=adapters, rounds=1)
        Trainer(config, folder).fit()
        return folder

    return {"full": train("full"), "adapters": train("adapters", adapters={"rank": 2})}


def evaluated(words, tmp_path):
    out = tmp_path / "scores.json"
    assert cli.main(["eval", *words, "--out", str(out)]) == 0
    return json.loads(out.read_text())


def seated(record):
    """Return the policy of agent_0 in each episode."""
    return [episode["seats"]["agent_0"] for episode in record["scores"][0]["episodes"]]


def test_a_scripted_policy_is_scored(tmp_path, capsys):
    words = ["--environment", "coop_compete_pair_v0", "--held-out", "only"]
    record = evaluated([*words, "--policy", "tit_for_tat", "--episodes", "4"], tmp_path)
    names = [score["scenario"]["name"] for score in record["scores"]]
    assert tuple(names) == scenarios.names("coop_compete_pair_v0", holdout=True)
    assert record["focal"] == {"name": "tit_for_tat", "kind": "scripted"}
    assert (record["seed"], record["episodes"]) == (0, 4) and "numpy" in record["versions"]
    pavlov = record["scores"][0]
    assert pavlov["cooperation_rate"] == 1.0
    low, high = pavlov["focal_interval"]
    assert low <= pavlov["focal_return"] <= high
    told = capsys.readouterr().out
    assert f"{PAVLOV} *" in told and f"{pavlov['focal_return']:.3f}" in told
    assert "cooperation 1.00" in told


def test_the_seed_determines_the_file_and_quiet_prints_nothing(tmp_path, capsys):
    words = ["--environment", "bandit_v0", "--policy", "uniform", "--episodes", "3", "--quiet"]
    assert evaluated(words, tmp_path) == evaluated(words, tmp_path)
    assert evaluated([*words, "--seed", "1"], tmp_path) != evaluated(words, tmp_path)
    assert capsys.readouterr().out == ""


def test_set_replaces_arguments_and_the_holdout_of_a_replaced_argument(tmp_path, capsys):
    name = "coop_compete_v1.strangers_unseen"
    words = ["--scenario", name, "--policy", "uniform", "--episodes", "2"]
    [whole] = evaluated(words, tmp_path)["scores"]
    [short] = evaluated([*words, "--set", "max_cycles=1"], tmp_path)["scores"]
    [seen] = evaluated([*words, "--set", "split=train"], tmp_path)["scores"]
    assert short["focal_return"] < whole["focal_return"] / 2
    assert short["scenario"]["options"]["max_cycles"] == 1
    tags = [one["scenario"]["tags"] for one in (whole, short, seen)]
    assert tags[0] == tags[1] and "held-out levels" in tags[0] and "held-out levels" not in tags[2]
    again = evaluated([*words, "--set", "split=test", "--background", "bully"], tmp_path)["scores"]
    assert again[0]["scenario"]["tags"] == ["held-out levels"]
    assert f"{name} *" in capsys.readouterr().out.rpartition("mean return")[2]


def test_agents_that_join_need_a_background_policy(tmp_path, capsys):
    words = ["--scenario", "coop_compete_v0.one_among_leaders", "--policy", "uniform", "--set"]
    assert "unknown: ['agent_2', 'agent_3']" in refused([*words, "num_agents=2"], capsys)
    said = "missing: ['agent_4'] (srl eval --background NAME"
    assert said in refused([*words, "turnover=1"], capsys)
    joined = [*words, "turnover=1", "--episodes", "1", "--background", "bully|uniform"]
    background = evaluated(joined, tmp_path)["scores"][0]["scenario"]["background"]
    assert background == {f"agent_{i}": "bully|uniform" for i in (1, 2, 3, 4)}


@pytest.mark.usefixtures("one_model")
def test_the_embedded_model_is_scored(tmp_path):
    record = evaluated([*FEW, "--policy", "tiny", "--constrained"], tmp_path)
    assert seated(record) == ["tiny", "tiny"]
    assert record["focal"]["constrained"] and record["scores"][0]["parse_failures"] == 0.0


@pytest.mark.parametrize("kind", ["full", "adapters"])
def test_models_of_a_run_are_assigned_in_order(kind, trained, tmp_path):
    record = evaluated([*FEW, "--policy", str(trained[kind])], tmp_path)
    assert seated(record) == ["model_0", "model_1"]
    assert record["focal"]["kind"] == "run" and record["focal"]["constrained"]
    assert record["focal"]["sampling"]["max_new_tokens"] == 4, "as it trained"


@pytest.mark.parametrize("kind", ["full", "adapters"])
def test_a_model_of_a_run_plays_as_its_folder(kind, trained, tmp_path):
    run = trained[kind]
    alone = evaluated([*FEW, "--policy", f"{run}:model_1"], tmp_path)
    assert seated(alone) == ["model_1", "model_1"]
    folder = evaluated([*FEW, "--policy", f"{run}/models/model_1", "--constrained"], tmp_path)
    assert [e["returns"] for e in alone["scores"][0]["episodes"]] == [
        e["returns"] for e in folder["scores"][0]["episodes"]
    ]


def test_an_adapter_plays_with_its_weights(trained, tmp_path):
    """The adapter is changed so that its answers differ from those of the base model."""
    from safetensors.torch import load_file, save_file

    changed = tmp_path / "run"
    shutil.copytree(trained["adapters"], changed)
    weights = changed / "models" / "model_1" / "adapter_model.safetensors"
    save_file({name: tensor + 0.5 for name, tensor in load_file(weights).items()}, weights)
    adapters = trained["adapters"]

    def returns(policy):
        words = ["--episodes", "4", "--scenario", PAVLOV, "--policy", policy]
        return [e["returns"] for e in evaluated(words, tmp_path)["scores"][0]["episodes"]]

    stronger = returns(f"{changed}:model_1")
    assert stronger != returns(f"{adapters}:model_1")
    assert returns(f"{changed}:model_0") == returns(f"{adapters}:model_0")
    # Together on one base, taking turns from episode to episode, each plays as it does alone.
    together = returns(str(changed))
    assert together[0::2] == returns(f"{changed}:model_0")[0::2]
    assert together[1::2] == stronger[1::2]


DIGITS = ["--scenario", "math_v0.one_digit_unseen"]


def test_pass_at_k_of_sampled_problems(tmp_path, tiny_folder, capsys):
    words = [*DIGITS, "--policy", tiny_folder, "--max-new-tokens", "8", "--episodes", "3"]
    record = evaluated([*words, "--samples", "4", "--pass-at", "2", "4"], tmp_path)
    assert (record["schema_version"], record["episodes"], record["samples"]) == (4, 3, 4)
    [score] = record["scores"]
    assert len(score["episodes"]) == 12
    found = score["solved"]
    assert [(one["n"], one["difficulty"]) for one in found["problems"]] == [(4, 1)] * 3
    assert [one["k"] for one in found["pass_at"]] == [2, 4]
    told = capsys.readouterr().out
    assert "12 episodes per scenario" in told
    [row] = re.findall(r"^math_v0.one_digit_unseen \* +3 +12 (.*)$", told, re.MULTILINE)
    assert row.strip().startswith("0.0%")
    assert "pass@2" in told and "pass@4" in told and "pass@1" not in told
    again = evaluated([*words, "--samples", "4", "--pass-at", "2", "4", "--quiet"], tmp_path)
    assert again == record


def refused(words, capsys):
    assert cli.main(["eval", *words]) == 2
    said = capsys.readouterr().err
    assert said.startswith("srl: error: ") and said.count("\n") == 1
    return said


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--policy", "uniform"], "--scenario or --environment"),
        (["--environment", "chess", "--policy", "uniform"], "no environment 'chess'"),
        ([*FEW, "--policy", "explorer"], "explorer cannot play coop_compete_v0"),
        ([*FEW, "--policy", "uniform", "--seed", "-1"], "--seed must be from 0"),
        ([*FEW, "--policy", "tiny", "--temperature", "-1"], "temperature must be"),
        ([*FEW, "--policy", "tiny", "--threads", "0"], "--threads must be from 1"),
        ([*FEW, "--policy", "uniform", "--timeout", "0"], "--timeout must be from"),
        ([*FEW, "--policy", "uniform", "--samples", "2"], "'success'"),
        ([*DIGITS, "--policy", "tiny", "--pass-at", "0"], "--pass-at"),
        ([*DIGITS, "--policy", "uniform"], "uniform cannot play math_v0"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(words, reason, capsys):
    assert reason in refused(words, capsys)


def test_scores_are_printed_before_the_file_is_written(tmp_path, capsys, monkeypatch):
    """The disk is full when the file is written."""

    def full(file):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    words = [*FEW, "--policy", "uniform", "--out", str(tmp_path / "there")]
    assert cli.main(["eval", *words]) == 2
    printed = capsys.readouterr()
    assert f"{PAVLOV} *" in printed.out and "written" not in printed.out
    assert printed.err.startswith("srl: error: --out") and "No space left" in printed.err
    assert not list(tmp_path.iterdir()), "a part of the file is left"


def test_any_policy_plays_the_background(trained, tmp_path, capsys):
    words = [*FEW, "--policy", "tit_for_tat", "--background"]
    run = f"{trained['full']}:model_1"
    record = evaluated([*words, run], tmp_path)
    [score] = record["scores"]
    assert score["scenario"]["background"] == {"agent_1": run}
    assert score["scenario"]["held_out_partners"] == []
    assert [one["seats"]["agent_1"] for one in score["episodes"]] == [run, run]
    scripted = evaluated([*words, "agent_1=always_compete"], tmp_path)["scores"][0]
    # Tit for tat cooperates once, then competes like its partner.
    assert 0 < scripted["cooperation_rate"] < 1 and score["episodes"] != scripted["episodes"]
    assert "must be one of agent_0, agent_1" in refused([*words, "agent_9=tiny"], capsys)
    alone = ["--scenario", "maze_v0.small", "--policy", "explorer", "--background"]
    assert "AGENT=explorer with one of the agents agent_0" in refused([*alone, "explorer"], capsys)
    assert "must leave one agent" in refused([*alone, "agent_0=explorer"], capsys)
