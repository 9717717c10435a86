"""`srl eval`: who is scored, in what, and what is told and written."""

import errno
import json
import os
import re
import shutil

import pytest

from srl_agents.episode import read_jsonl
from srl_envs import registry
from srl_envs.scenarios import lookup
from srl_envs.wrappers.text_adapter import with_text
from srl_train import cli
from srl_train.trainer import Trainer
from tests.servers.chat_server import chat_server
from tests.srl_envs.wrappers.third_party_games import Nim

PAVLOV = "coop_compete_pair_v0.pavlov"
FEW = ["--episodes", "2", "--scenario", PAVLOV]


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tiny_folder):
    """Kind -> a run's folder: of two full models, of two adapters."""
    from srl_train.config.yaml_file import from_tree

    def train(name, **models):
        folder = tmp_path_factory.mktemp("runs") / name
        tree = {
            "environment": {
                "name": "coop_compete_v0",
                "options": {"variant": "pair", "num_agents": 2, "max_cycles": 2},
            },
            "models": {
                "count": 2,
                "base": tiny_folder,
                "constrained": True,
                "sampling": {"max_new_tokens": 4},
                **models,
            },
            "mode": {"name": "cooperative"},
            "rollout": {"group_size": 4, "groups_per_round": 1},
            "checkpoints": {"every": 0},
            "logging": {"evaluation_episodes": 0, "episodes": 0},
            "rounds": 1,
        }
        Trainer(from_tree(tree), folder).fit()
        return folder

    return {"full": train("full"), "adapters": train("adapters", adapters={"rank": 2})}


def evaluated(words, tmp_path):
    out = tmp_path / "scores.json"
    assert cli.main(["eval", *words, "--out", str(out)]) == 0
    return json.loads(out.read_text())


def seated(record):
    """Who sat in agent_0, episode by episode."""
    return [episode["seats"]["agent_0"] for episode in record["scores"][0]["episodes"]]


def test_a_classic_policy_is_scored_and_told(tmp_path, capsys):
    words = ["--environment", "coop_compete_pair_v0", "--held-out", "only"]
    record = evaluated([*words, "--policy", "tit_for_tat", "--episodes", "4"], tmp_path)
    names = [score["scenario"]["name"] for score in record["scores"]]
    assert tuple(names) == lookup.names("coop_compete_pair_v0", holdout=True)
    assert record["focal"] == {"name": "tit_for_tat", "kind": "scripted"}
    assert (record["seed"], record["episodes"]) == (0, 4) and "numpy" in record["versions"]
    pavlov = record["scores"][0]
    assert pavlov["cooperation_rate"] == 1.0
    low, high = pavlov["focal_interval"]
    assert low <= pavlov["focal_return"] <= high
    told = capsys.readouterr().out
    assert f"{PAVLOV} *" in told and f"{pavlov['focal_return']:.3f}" in told
    assert "cooperation 1.00" in told


def test_the_same_command_gives_the_same_file(tmp_path):
    words = ["--environment", "bandit_v0", "--policy", "uniform", "--episodes", "3", "--quiet"]
    assert evaluated(words, tmp_path) == evaluated(words, tmp_path)
    assert evaluated([*words, "--seed", "1"], tmp_path) != evaluated(words, tmp_path)


def test_quiet_prints_nothing(capsys):
    assert cli.main(["eval", *FEW, "--policy", "uniform", "--quiet"]) == 0
    assert capsys.readouterr().out == ""


def test_episodes_are_recorded(tmp_path):
    assert cli.main(["eval", *FEW, "--policy", "uniform", "--record", str(tmp_path)]) == 0
    episodes = list(read_jsonl(tmp_path / f"{PAVLOV}.jsonl"))
    assert [dict(e.seats) for e in episodes] == [{"agent_0": "uniform", "agent_1": "pavlov"}] * 2


def test_scenarios_are_listed(capsys):
    assert cli.main(["eval", "--list"]) == 0
    everything = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in everything] == list(lookup.names())
    assert cli.main(["eval", "--list", "--environment", "maze_v0", "--held-out", "none"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


@pytest.mark.usefixtures("one_model")
def test_the_embedded_model_is_scored(tmp_path):
    record = evaluated([*FEW, "--policy", "tiny", "--constrained"], tmp_path)
    assert seated(record) == ["tiny", "tiny"]
    assert record["focal"]["constrained"] and record["scores"][0]["parse_failures"] == 0.0


def test_a_models_folder_is_scored(tmp_path, tiny_folder):
    record = evaluated([*FEW, "--policy", tiny_folder, "--max-new-tokens", "1"], tmp_path)
    assert record["focal"]["kind"] == "folder"
    assert record["focal"]["sampling"]["max_new_tokens"] == 1


@pytest.mark.parametrize("kind", ["full", "adapters"])
def test_a_runs_models_are_dealt_in_order(kind, trained, tmp_path):
    record = evaluated([*FEW, "--policy", str(trained[kind])], tmp_path)
    assert seated(record) == ["model_0", "model_1"]
    assert record["focal"]["kind"] == "run" and record["focal"]["constrained"]
    assert record["focal"]["sampling"]["max_new_tokens"] == 4, "as it trained"


@pytest.mark.parametrize("kind", ["full", "adapters"])
def test_one_model_of_a_run_plays_alone_as_it_plays_by_its_folder(kind, trained, tmp_path):
    run = trained[kind]
    alone = evaluated([*FEW, "--policy", f"{run}:model_1"], tmp_path)
    assert seated(alone) == ["model_1", "model_1"]
    folder = evaluated([*FEW, "--policy", f"{run}/models/model_1", "--constrained"], tmp_path)
    assert [e["returns"] for e in alone["scores"][0]["episodes"]] == [
        e["returns"] for e in folder["scores"][0]["episodes"]
    ]


def test_an_adapter_plays_with_its_own_weights(trained, tmp_path):
    """Not as its base does: the adapter is made strong enough to show."""
    from safetensors.torch import load_file, save_file

    changed = tmp_path / "run"
    shutil.copytree(trained["adapters"], changed)
    weights = changed / "models" / "model_1" / "adapter_model.safetensors"
    save_file({name: tensor + 0.5 for name, tensor in load_file(weights).items()}, weights)
    adapters = trained["adapters"]

    def returns(who):
        words = ["--episodes", "8", "--scenario", PAVLOV, "--policy", who]
        return [e["returns"] for e in evaluated(words, tmp_path)["scores"][0]["episodes"]]

    stronger = returns(f"{changed}:model_1")
    assert stronger != returns(f"{adapters}:model_1")
    assert returns(f"{changed}:model_0") == returns(f"{adapters}:model_0")
    # Together on one base, taking turns from episode to episode, each plays as it does alone.
    together = returns(str(changed))
    assert together[0::2] == returns(f"{changed}:model_0")[0::2]
    assert together[1::2] == stronger[1::2]


DIGITS = ["--scenario", "math_v0.one_digit_unseen"]


def test_problems_are_sampled_and_what_was_solved_is_told(tmp_path, tiny_folder, capsys):
    words = [*DIGITS, "--policy", tiny_folder, "--max-new-tokens", "8", "--episodes", "3"]
    record = evaluated([*words, "--samples", "4", "--pass-at", "2", "4"], tmp_path)
    assert (record["schema_version"], record["episodes"], record["samples"]) == (3, 3, 4)
    [score] = record["scores"]
    assert len(score["episodes"]) == 12
    found = score["solved"]
    assert [(one["n"], one["difficulty"]) for one in found["problems"]] == [(4, 1)] * 3
    assert [one["k"] for one in found["pass_at"]] == [2, 4]
    assert set(found["by_family"]) == {"arithmetic"}
    told = capsys.readouterr().out
    assert "12 episodes each" in told
    [row] = re.findall(r"^math_v0.one_digit_unseen \* +3 +12 (.*)$", told, re.MULTILINE)
    assert row.strip().startswith("0.0%") and row.endswith("1: 0%")
    assert "pass@2" in told and "pass@4" in told and "pass@1" not in told
    again = evaluated([*words, "--samples", "4", "--pass-at", "2", "4", "--quiet"], tmp_path)
    assert again == record


def test_games_are_told_as_ever(tmp_path, capsys):
    record = evaluated([*FEW, "--policy", "uniform"], tmp_path)
    assert record["scores"][0]["solved"] is None and record["samples"] == 1
    assert "solved" not in capsys.readouterr().out


def refused(words, capsys):
    assert cli.main(["eval", *words]) == 2
    said = capsys.readouterr().err
    assert said.startswith("srl: error: ") and said.count("\n") == 1
    return said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--policy", "uniform"], "give --scenario NAME or --environment ENV"),
        (["--scenario", PAVLOV], "give --policy WHO"),
        (["--scenario", "pair.pavlow", "--policy", "uniform"], "no scenario 'pair.pavlow'"),
        (["--environment", "chess", "--policy", "uniform"], "no environment 'chess'"),
        (
            ["--environment", "social_v0", "--policy", "uniform"],
            "social_v0 has no scenarios; there are some of social_trading_v0, "
            "social_negotiation_v0\n",
        ),
        (["--environment", "multitask_v0", "--list"], "there are some of coop_compete_v0, "),
        ([*FEW, "--policy", "tit_for_tatt"], "did you mean 'tit_for_tat'"),
        ([*FEW, "--policy", "explorer"], "explorer cannot play coop_compete_v0"),
        ([*FEW, "--policy", "uniform", "--episodes", "0"], "--episodes is 0"),
        ([*FEW, "--policy", "uniform", "--seed", "-1"], "--seed is -1"),
        ([*FEW, "--policy", "tiny", "--temperature", "-1"], "temperature is -1"),
        ([*FEW, "--policy", "tiny", "--threads", "0"], "--threads is 0"),
        ([*FEW, "--policy", "uniform", "--temperature", "1"], "--temperature is for models"),
        ([*FEW, "--policy", "uniform", "--max-new-tokens", "4"], "--max-new-tokens is for"),
        ([*FEW, "--policy", "uniform", "--no-constrained"], "--constrained is for models"),
        ([*FEW, "--policy", "uniform", "--device", "cpu"], "--device is for models"),
        ([*FEW, "--policy", "uniform", "--threads", "1"], "--threads is for models"),
        ([*FEW, "--policy", "uniform", "--samples", "0"], "--samples is 0"),
        ([*FEW, "--policy", "uniform", "--samples", "2"], "infos have no 'success'"),
        ([*FEW, "--policy", "uniform", "--pass-at", "1"], "infos have no 'success'"),
        ([*DIGITS, "--policy", "tiny", "--pass-at", "0"], "--pass-at is 0"),
        ([*DIGITS, "--policy", "tiny", "--samples", "4", "--pass-at", "8"], "give --samples 8"),
        (["--scenario", "debate_v0.both_sides", "--policy", "tiny", "--samples", "2"], "2 focal"),
        (["--scenario", "code_v0.hard_unseen", "--policy", "tiny"], "train another model"),
        ([*DIGITS, "--policy", "uniform"], "uniform cannot play math_v0"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(words, says, capsys):
    assert says in refused(words, capsys)


def test_a_model_elsewhere_reads_how_to_answer_but_not_where_to_run(capsys):
    with chat_server() as server:
        words = [*FEW, "--policy", "openai:m", "--temperature", "0.5"]
        assert "--device is for models that run here" in refused(
            [*words, "--device", "cpu"], capsys
        )
        assert server.bodies == [] and cli.main(["eval", *words]) == 0
        assert {body["temperature"] for body in server.bodies} == {0.5}


@pytest.mark.parametrize(
    ("flag", "place", "says"),
    [
        ("--out", "folder", "a folder or a device is there"),
        ("--out", "file/scores.json", "File exists"),
        ("--out", "/dev/null", "a folder or a device is there"),
        ("--out", "/proc/no/scores.json", "cannot write"),
        ("--record", "file", "File exists"),
        ("--record", "taken", "a folder or a device is there"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is_played(
    flag, place, says, tmp_path, capsys, monkeypatch
):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    (tmp_path / "taken" / f"{PAVLOV}.jsonl").mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr("srl_agents.evaluation.scenarios.play_many", None)
    said = refused([*FEW, "--policy", "uniform", flag, str(tmp_path / place)], capsys)
    assert says in said and flag in said and place in said
    assert sorted(tmp_path.rglob("*")) == before and (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("flag", ["--out", "--record"])
def test_the_scores_are_told_before_anything_is_written(flag, tmp_path, capsys, monkeypatch):
    """The disk is full by the end."""

    def full(file):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    words = [*FEW, "--policy", "uniform", flag, str(tmp_path / "there")]
    assert cli.main(["eval", *words]) == 2
    printed = capsys.readouterr()
    assert f"{PAVLOV} *" in printed.out and "written" not in printed.out
    assert printed.err.startswith(f"srl: error: {flag}") and "No space left" in printed.err
    assert flag == "--record" or not list(tmp_path.iterdir()), "nor is half of it left"


def test_a_run_without_that_model_or_any_is_refused(trained, tmp_path, capsys):
    said = refused([*FEW, "--policy", f"{trained['full']}:model_7"], capsys)
    assert "has no model 'model_7', only model_0, model_1" in said
    (tmp_path / "unfinished" / "models").mkdir(parents=True)
    assert "holds no model" in refused([*FEW, "--policy", str(tmp_path / "unfinished")], capsys)


def test_a_broken_folder_is_refused(trained, tmp_path, capsys):
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "adapter_config.json").write_text("{}")
    assert "cannot load the adapter" in refused([*FEW, "--policy", str(broken)], capsys)
    moved = tmp_path / "moved"
    shutil.copytree(trained["adapters"] / "models" / "model_0", moved)
    settings = json.loads((moved / "adapter_config.json").read_text())
    settings["base_model_name_or_path"] = str(tmp_path / "gone")
    (moved / "adapter_config.json").write_text(json.dumps(settings))
    assert "its base: there is no folder" in refused([*FEW, "--policy", str(moved)], capsys)


def test_any_player_takes_the_background(trained, tmp_path, capsys):
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
    assert "'agent_9', give one of agent_0, agent_1" in refused([*words, "agent_9=tiny"], capsys)
    alone = ["--scenario", "maze_v0.small", "--policy", "explorer", "--background"]
    assert "give AGENT=explorer for one of agent_0" in refused([*alone, "explorer"], capsys)
    assert "leave one to --policy" in refused([*alone, "agent_0=explorer"], capsys)


def test_any_agent_of_an_own_environment_may_be_a_partner(tmp_path, capsys):
    own = f"{__name__}:own_game"
    words = ["--environment", own, "--policy", "always_cooperate", "--episodes", "2"]
    record = evaluated([*words, "--background", "agent_1=always_compete"], tmp_path)
    [score] = record["scores"]
    assert score["scenario"]["focal"] == ["agent_0"]
    assert score["episodes"][0]["seats"] == {
        "agent_0": "always_cooperate", "agent_1": "always_compete",
    }  # fmt: skip
    told = capsys.readouterr().out
    assert "outcomes" in told and not re.search(r"\band\b\n", told)


def test_a_game_that_reports_nothing_has_no_column_of_outcomes(tmp_path, capsys):
    words = ["--environment", f"{__name__}:own_game_of_nothing", "--policy", "uniform"]
    evaluated([*words, "--episodes", "2"], tmp_path)
    assert "outcomes" not in capsys.readouterr().out


def own_game():
    return registry.make("coop_compete_pair_v0", max_cycles=2)


def own_game_of_nothing():
    return with_text(Nim(), rules="Take the last stick.", answers=("one", "two"))
