"""Stages before the rounds: they run in order, resume to the bit, and teach."""

import json
from functools import partial

import pytest

from srl_agents.episode import read_jsonl, write_jsonl
from srl_extensions.offline.collect import play_games, scripted_player
from srl_train import checkpoints as checkpoint
from srl_train.cli import main
from srl_train.config.yaml_file import dump, from_tree
from srl_train.environment import build_env
from srl_train.errors import CheckpointError, ConfigError, DataError
from srl_train.metrics import read_metrics
from srl_train.trainer import Trainer
from tests.srl_train.run_state import (
    everything,
    same,
    stopped_after_every_pass,
    weights,
    without_times,
)

SFT = {"data_policy": "always_cooperate", "episodes": 6, "epochs": 2, "batch_size": 4}
DPO = {"episodes": 8, "epochs": 2, "batch_size": 4}


def reports(trainer):
    return without_times(trainer.run.stages.reports)


def rows(folder):
    return without_times(read_metrics(folder / "stages.jsonl"))


def test_sft_then_dpo_then_rounds(short_run, tmp_path):
    config = short_run(
        sft=SFT, dpo=DPO, logging__evaluation_episodes=4, sft__observation_weight=0.1
    )
    trainer = Trainer(config, tmp_path)
    results = trainer.fit()
    assert results["training_completed"]
    assert list(results["evaluation"]) == ["before", "after_sft", "after_dpo", "after"]
    assert [(r["stage"], r["passes"], r["games"]) for r in results["stages"]] == [
        ("sft", 2, 6),
        ("dpo", 2, 8),
    ]
    assert results["stages"][0]["models"]["model_0"]["samples"] == 6
    written = read_metrics(tmp_path / "stages.jsonl")
    assert [(row["round"], row["stage"], row["pass"]) for row in written] == [
        (0, "sft", 0), (1, "sft", 1), (2, "dpo", 0), (3, "dpo", 1),
    ]  # fmt: skip
    first, second = (row["models"]["model_1"] for row in written[:2])
    assert second["loss"] < first["loss"] and first["updated"] and second["updates"] == 2
    assert "rewards/accuracies" in written[2]["models"]["model_0"]
    assert [row["round"] for row in read_metrics(tmp_path / "metrics.jsonl")] == [0, 1]
    # What was played for the stages is there to be looked at.
    [game, *_] = read_jsonl(tmp_path / "data" / "sft.jsonl")
    assert set(game.seats.values()) == {"always_cooperate"}
    games = list(read_jsonl(tmp_path / "data" / "dpo.jsonl"))
    assert set(games[0].seats.values()) == {"model_0", "model_1"}
    assert len({g.seed for g in games}) == 2  # groups of group_size
    # The samplers heard of the new weights.
    assert str(games[0].turns[0][0].decision.tokens.model) == "model_0@2"
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["stages"] == results["stages"] and summary["rounds"] == 2


@pytest.mark.parametrize(
    "settings",
    [
        {
            "sft": {**SFT, "schedule": "linear"},
            "updates__strategy": "federated",
            "updates__mix": 0.5,
        },
        {"sft": {**SFT, "epochs": 1}, "dpo": DPO, "models__adapters": {"rank": 2}},
    ],
    ids=["federated", "two stages of adapters"],
)
def test_stopped_after_every_pass_and_resumed(settings, short_run, tmp_path, monkeypatch):
    config = short_run(**settings, rounds=1, checkpoints__every=0)
    whole = Trainer(config, tmp_path / "whole")
    whole.fit()
    total = whole.run.stages.passes
    assert total == len(rows(tmp_path / "whole")) == (3 if "dpo" in settings else 2)
    stopped_after_every_pass(lambda: Trainer(config, tmp_path / "parts"), total, monkeypatch)
    resumed = Trainer(config, tmp_path / "parts")
    resumed.load_checkpoint()
    assert resumed.run.stages.passes == total
    assert resumed.fit()["training_completed"]
    assert same(everything(resumed.run), everything(whole.run))
    assert rows(tmp_path / "parts") == rows(tmp_path / "whole")
    assert reports(resumed) == reports(whole)


def test_run_of_stages_continues_with_rounds(short_run, tmp_path, capsys):
    alone = short_run(sft=SFT, rounds=0, logging__evaluation_episodes=4)
    config = tmp_path / "run.yaml"
    config.write_text(dump(alone))
    out = tmp_path / "run"
    assert main(["train", str(config), "--out", str(out), "--quiet"]) == 0
    capsys.readouterr()
    assert checkpoint.list_checkpoints(out / "checkpoints") == ["final_round_00000000"]
    summary = json.loads((out / "summary.json").read_text())
    assert list(summary["evaluation"]) == ["before", "after"]
    assert (out / "models" / "model_1" / "config.json").is_file()
    assert main(["report", str(out)]) == 0
    assert "evaluations before" in capsys.readouterr().out
    assert main(["train", str(config), "--out", str(out), "--quiet"]) == 2  # never written over
    assert "already contains a run" in capsys.readouterr().err
    more = ["--resume", "--quiet", "--set", "rounds=1"]
    assert main(["train", str(config), "--out", str(out), *more]) == 0
    assert len(read_metrics(out / "metrics.jsonl")) == 1

    two = Trainer(short_run(sft=SFT, rounds=1), tmp_path / "two")
    two.fit()
    again = Trainer(short_run(sft=SFT, rounds=1), out)
    again.load_checkpoint()
    assert same(weights(two.run), weights(again.run))
    again.close()
    other = Trainer(short_run(sft={**SFT, "epochs": 3}, rounds=1), out)
    with pytest.raises(CheckpointError, match=r"sft\.epochs: must be 2"):
        other.load_checkpoint()


def test_stage_uses_data_of_own_or_all_agents(short_run, tmp_path):
    make_env = partial(build_env, short_run())
    policies = {
        f"agent_{i}": scripted_player(name, make_env())
        for i, name in enumerate(("always_compete", "always_cooperate"))
    }
    write_jsonl(tmp_path / "games.jsonl", play_games(make_env, policies, 8, 0))
    data = {"data": [str(tmp_path / "games.jsonl")], "epochs": 1, "learning_rate": 5e-3}
    for seats in ("own", "all"):
        config = short_run(
            sft={**data, "seats": seats}, rounds=0, logging__evaluation_episodes=8,
            updates__strategy="synchronized" if seats == "all" else "asynchronous",
        )  # fmt: skip
        trainer = Trainer(config, tmp_path / seats)
        trainer.fit()
        played = trainer.run.stages.reports[0]["models"]
        samples = 8 if seats == "own" else 16
        assert [own["samples"] for own in played.values()] == [samples, samples]
        one, other = weights(trainer.run).values()
        # Synchronized models with shared data stay equal; models with their own agents diverge.
        assert same(one, other) is (seats == "all")
    assert not (tmp_path / "own" / "data").exists()


@pytest.mark.parametrize("reference", ["stage", "base"])
def test_reference_is_the_model_after_stages_or_the_base(reference, short_run, tmp_path):
    config = short_run(
        models__count=1, sft=SFT, algorithm__beta=0.1, algorithm__reference=reference, rounds=1
    )
    with Trainer(config, tmp_path) as trainer:
        loaded = weights(trainer.run)["model_0"]
        trainer.train_stages()
        held = dict(trainer.run.learners["model_0"].reference())
        taught = weights(trainer.run)["model_0"]
    assert not same(loaded, taught)
    assert same(held, taught if reference == "stage" else loaded)


def test_empty_data_is_refused(short_run, tmp_path):
    trainer = Trainer(short_run(sft={**SFT, "min_return": 99.0}, rounds=0), tmp_path / "none")
    with pytest.raises(DataError, match=r"sft: no part of 6 episodes is left"):
        trainer.fit()
    only_one_answer = {"data": [str(tmp_path / "none" / "data" / "sft.jsonl")]}
    trainer = Trainer(short_run(dpo=only_one_answer, rounds=0), tmp_path / "same")
    with pytest.raises(DataError, match=r"dpo: no part of 6 episodes is left"):
        trainer.fit()


def test_preferences_of_a_file(short_run, tmp_path):
    talk = [{"role": "system", "content": "Choose."}, {"role": "user", "content": "Now?"}]
    row = {
        "prompt": talk,
        "chosen": [{"role": "assistant", "content": "cooperate"}],
        "rejected": [{"role": "assistant", "content": "compete"}],
    }
    path = tmp_path / "pairs.jsonl"
    path.write_text((json.dumps(row) + "\n") * 4)
    dpo = {"data": [str(path)], "epochs": 3, "batch_size": 2}
    trainer = Trainer(short_run(dpo=dpo, rounds=0), tmp_path / "run")
    trainer.fit()
    written = read_metrics(tmp_path / "run" / "stages.jsonl")
    margins = [row["models"]["model_0"]["rewards/margins"] for row in written]
    assert margins == sorted(margins) and margins[-1] > 0.1
    [report] = trainer.run.stages.reports
    assert report["games"] == 0 and report["games_reward"] is None

    path.write_text("{}\n")
    broken = Trainer(short_run(dpo=dpo, rounds=0), tmp_path / "broken")
    with pytest.raises(DataError, match=r"pairs\.jsonl, line 1: prompt, chosen and rejected must"):
        broken.fit()


# ---- they teach ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("game", ["coop_compete_v0", "team_battle_v0", "maze_simple_v0"])
def test_sft_then_grpo(game, tmp_path, monkeypatch):
    monkeypatch.setenv("CORE_SRL_CACHE", str(tmp_path / "cache"))
    settings = {
        "environment": {"name": game, "options": {"max_cycles": 16 if "maze" in game else 6}},
        "models": {"count": 1 if "maze" in game else 4},
        "mode": {"name": "cooperative"},
        "sft": {"episodes": 256, "top_fraction": 0.25, "epochs": 4, "learning_rate": 1e-3},
        "algorithm": {"learning_rate": 1e-3, "scale_rewards": "none"},
        "logging": {"evaluation_episodes": 64, "episodes": 0},
        "rounds": 10,
    }
    results = Trainer(from_tree(settings), tmp_path / "run").fit()
    measured = {when: found["raw_reward"] for when, found in results["evaluation"].items()}
    [stage] = results["stages"]
    assert measured["after_sft"] > stage["games_reward"]
    assert measured["after"] > measured["after_sft"] > measured["before"]


def test_episodes_beyond_the_context_are_refused_before_training(short_run, tmp_path):
    path = tmp_path / "long.jsonl"
    words = ["collect", "--environment", "coop_compete_pair_v0", "--set",
             "environment.options.max_cycles=300", "--players", "uniform", "--episodes", "1",
             "--out", str(path)]  # fmt: skip
    assert main(words) == 0
    for stage in ("sft", "dpo"):
        data = write_preferences(tmp_path) if stage == "dpo" else path
        config = short_run(rounds=0, **{stage: {"data": [str(data)]}})
        trainer = Trainer(config, tmp_path / stage)
        before = forward_of(trainer)
        with pytest.raises(DataError, match=rf"{stage}: a conversation of \d+ tokens .* 4096 "):
            trainer.fit()
        assert not (tmp_path / stage / "stages.jsonl").read_text()
        assert forward_of(trainer) is before


def forward_of(trainer):
    return vars(trainer.run.players.modules["model_0"]).get("forward")


def test_a_learner_that_cannot_be_built_leaves_the_model_unchanged(short_run, tmp_path):
    trainer = Trainer(short_run(sft={**SFT, "schedule": "cosine_with_min_lr"}), tmp_path)
    before = forward_of(trainer)
    with pytest.raises(ConfigError, match="sft: optimizer or schedule"):
        trainer.fit()
    assert forward_of(trainer) is before


def write_preferences(folder):
    path = folder / "preferences.jsonl"
    row = {"prompt": "cooperate " * 5000, "chosen": "cooperate", "rejected": "compete"}
    path.write_text(json.dumps(row) + "\n")
    return path
