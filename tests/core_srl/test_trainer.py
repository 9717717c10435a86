"""The documented trainer, the recovery from errors, and the functions around it."""

import asyncio
from pathlib import Path

import pytest
import torch

from core_srl import config as documented
from core_srl.config import MultiModelConfig, TrainingMode, WeightUpdateStrategy
from core_srl.environments import (
    create_multi_model_coop_compete_env,
    create_multi_model_team_battle,
)
from core_srl.trainer import (
    MultiModelTrainer,
    create_competitive_multimodel_trainer,
    create_cooperative_multimodel_trainer,
    create_multimodel_trainer,
    list_available_checkpoints,
    load_checkpoint_metadata,
)
from srl_agents.llm import tiny
from srl_train.errors import CheckpointError, CheckpointNotFound, TrainingError
from tests.servers.chat_server import chat_server
from tests.srl_train.run_state import same, weights

SMALL = {
    "num_models": 2,
    "model_types": ["tiny"],
    "max_episodes": 8,
    "update_frequency": 4,
    "episode_length": 2,
    "save_interval": 4,
    "learning_rate": 3e-3,
    "num_gpus": 0,
}
SILENT = {"enable_monitoring": False}


@pytest.fixture(scope="module", autouse=True)
def one_model_and_short_evaluations(tiny_folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny, "folder", lambda make_env, **_: Path(tiny_folder))
        patch.setattr(documented, "EVALUATION_EPISODES", 2)
        yield


@pytest.fixture
def small(tmp_path):
    def build(**changes):
        return MultiModelConfig(**{**SMALL, "checkpoint_dir": str(tmp_path / "run"), **changes})

    return build


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A trainer after its two rounds, and the result of `train`."""
    folder = tmp_path_factory.mktemp("trained")
    trainer = MultiModelTrainer(MultiModelConfig(**SMALL, checkpoint_dir=str(folder)))
    return trainer, asyncio.run(trainer.train())


def test_train_returns_the_documented_results(trained):
    trainer, results = trained
    assert results["training_completed"] is True
    assert results["total_episodes"] == 8
    assert results["training_time"] > 0
    assert set(results["training_metrics"]) == {
        "episodes", "total_rewards", "cooperation_ratios", "weight_update_counts",
        "model_performances",
    }  # fmt: skip
    assert results["training_metrics"]["weight_update_counts"] == {"model_0": 2, "model_1": 2}
    assert set(results["final_model_states"]) == {"model_0", "model_1"}
    folder = trainer.trainer.files.folder
    newest, *_ = found = list_available_checkpoints(folder)
    assert results["checkpoints_saved"] == found[::-1]
    names = {path.name for path in folder.iterdir()}
    assert names >= {"config.yaml", "metrics.jsonl", "summary.json", "models", "episodes", newest}
    metadata = load_checkpoint_metadata(newest, folder)
    assert metadata["global_metrics"]["total_episodes"] == 8


def test_status_and_summary_have_the_documented_entries(trained):
    trainer, _ = trained
    status = trainer.get_training_status()
    assert set(status) == {
        "is_training", "current_episode", "max_episodes", "progress", "training_time",
        "model_states", "checkpoints_count", "config",
    }  # fmt: skip
    assert (status["current_episode"], status["max_episodes"], status["progress"]) == (8, 8, 1.0)
    assert status["config"] is trainer.config
    assert status["checkpoints_count"] == 2
    for entry in trainer.get_model_performance_summary().values():
        assert entry.items() >= {
            "model_type": "tiny", "model_name": "tiny", "gpu_id": None, "total_episodes": 8,
            "update_count": 2,
        }.items()  # fmt: skip
        assert 0.6 < entry["avg_reward"] < 1.0
        assert {"win_rate", "cooperation_score"} <= set(entry)


def test_episodes_are_trained_one_at_a_time(small):
    trainer = MultiModelTrainer(small(**SILENT))

    async def train():
        with pytest.raises(TrainingError, match="episode_num"):
            await trainer.train_multi_model_episode(1)
        games = []
        for number in range(trainer.config.max_episodes):
            assert trainer.current_episode == number
            games.append(await trainer.train_multi_model_episode(number))
        with pytest.raises(TrainingError, match="episode_num"):
            await trainer.train_multi_model_episode(8)
        return games

    games = asyncio.run(train())
    assert [game["episode"] for game in games] == list(range(8))
    assert [number for number, game in enumerate(games) if any(game["updates"].values())] == [3, 7]
    assert [game["metrics"].get("round") for game in games if game["metrics"]] == [0, 1]
    for game in games:
        assert game["updates"].keys() == game["rewards"].keys() == {"model_0", "model_1"}
        assert 0 <= game["cooperation_ratio"] <= 1
        assert game["failure"] is None
    for name, entry in trainer.get_model_performance_summary().items():
        assert entry["update_count"] == 2
        rewards = [game["rewards"][name] for game in games]
        assert entry["avg_reward"] == pytest.approx(sum(rewards) / 8)


def test_config_may_change_until_training_begins(small):
    trainer = create_cooperative_multimodel_trainer(num_models=4)
    trainer.config = small(**SILENT)
    trainer.config.num_models = 3
    assert trainer.get_training_status()["current_episode"] == 0
    trainer.config.num_models = 2  # the run that the status showed is built anew
    trainer.config.weight_update_strategy = WeightUpdateStrategy.SELECTIVE
    trainer.config.training_mode = "competitive"
    assert list(trainer.run.learners) == ["model_0", "model_1"]
    trainer.train_round()
    assert (trainer.run.config.mode.name, trainer.run.config.updates.strategy) == (
        "competitive",
        "selective",
    )
    asyncio.run(trainer.shutdown())
    trainer.config.num_models = 4
    with pytest.raises(CheckpointError, match="num_agents"):
        trainer.get_training_status()


def test_resumed_run_has_the_weights_of_an_uninterrupted_run(trained, small, tmp_path):
    finished, _ = trained
    first = MultiModelTrainer(small())
    first.train_round()
    saved = asyncio.run(first._save_checkpoint(first.current_episode))
    with pytest.raises(TrainingError, match="episode must be 4"):
        asyncio.run(first._save_checkpoint(3))
    asyncio.run(first.shutdown())

    second = MultiModelTrainer(small())
    assert second.load_checkpoint(saved) is True
    assert second.get_training_status()["progress"] == 0.5
    results = asyncio.run(second.train())
    assert results["total_episodes"] == 8 and not (tmp_path / "run-1").exists()
    assert same(weights(second.run), weights(finished.run))


def test_without_monitoring_only_models_and_checkpoints_are_written(small, capsys):
    trainer = MultiModelTrainer(small(max_episodes=4, **SILENT))
    results = asyncio.run(trainer.train())
    assert results["evaluation"] == {}
    names = {path.name for path in trainer.trainer.files.folder.iterdir()}
    assert names == {"models", "run.lock", *results["checkpoints_saved"]}
    assert "raw reward" not in capsys.readouterr().err


def test_models_behind_an_api_play_and_do_not_learn(small):
    with chat_server() as server:
        server.answer = lambda body: "compete"
        settings = {"num_models": 4, "model_types": ["tiny", "openai", "tiny", "claude"]}
        trainer = MultiModelTrainer(small(**settings, max_episodes=4, **SILENT))
        asyncio.run(trainer.train())
    asked = {body["model"] for body in server.bodies}
    assert asked == {"gpt-4o", "claude-3-5-sonnet-20241022"}
    summary = trainer.get_model_performance_summary()
    assert {name: entry["model_type"] for name, entry in summary.items()} == {
        "model_0": "tiny", "model_1": "tiny", "openai_1": "openai", "claude_3": "claude",
    }  # fmt: skip
    assert [entry["update_count"] for entry in summary.values()] == [1, 1, 0, 0]
    assert [entry["total_episodes"] for entry in summary.values()] == [4, 4, 4, 4]
    assert summary["openai_1"]["cooperation_score"] == 0.0
    assert summary["openai_1"]["avg_reward"] > 0


def test_unloadable_model_raises_the_documented_error(small, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    broken = {"model_types": ["mine"], "model_names": {"mine": str(tmp_path)}}
    with pytest.raises(RuntimeError, match="Model loading failed: "):
        MultiModelTrainer(small(**broken)).get_training_status()


# Its environment.


def test_plays_another_environment(small):
    given = create_multi_model_team_battle()
    trainer = MultiModelTrainer(small(max_episodes=4, episode_length=4, batch_size=8, **SILENT))
    trainer.environment = given
    run = trainer.run
    assert run.agents_of("model_0") == ("red_0", "red_2", "blue_0", "blue_2")
    # Four seats, four games: 16 samples, at most 8 in a step.
    assert run.config.algorithm.minibatches == 2
    # What the environment calls its length must be true before its first reset too.
    assert "Round 1 of 4." in run.view.describe("red_0", run.make_env().reset(seed=0)[0]["red_0"])
    row = trainer.train_round().row
    asyncio.run(trainer.shutdown())
    assert row["environment"]["name"] == "custom:team_battle_v0"
    assert row["models"]["model_0"]["samples"] == 16
    with pytest.raises(TrainingError, match="replaced after training began"):
        trainer.environment = given


def wordy(model_output, context):
    return float(len(model_output)) + 10 * context["round"]


def test_reward_function_replaces_the_rewards(small):
    trainer = MultiModelTrainer(small(max_episodes=4, **SILENT))
    trainer.environment.reward_function = wordy
    trainer.environment = create_multi_model_coop_compete_env(num_models=2)
    episode = trainer.train_round().episodes[0]
    for number, turn in enumerate(episode.turns):
        for step in turn:
            assert step.reward == len(step.decision.text) + 10 * number
    assert trainer.run.baselines == {}
    averages = [e["avg_reward"] for e in trainer.get_model_performance_summary().values()]
    assert all(average > 8 for average in averages)


def test_error_names_a_missing_checkpoint(small):
    with pytest.raises(CheckpointNotFound, match="round_7"):
        MultiModelTrainer(small()).load_checkpoint("round_7")
    with pytest.raises(FileNotFoundError, match="round_7"):
        load_checkpoint_metadata("round_7")


# Functions.


def test_trainers_of_each_mode():
    assert create_multimodel_trainer(6).config.num_models == 6
    cooperative = create_cooperative_multimodel_trainer(num_models=3).config
    assert (cooperative.training_mode, cooperative.num_models) == (TrainingMode.COOPERATIVE, 3)
    competitive = create_competitive_multimodel_trainer().config
    assert (competitive.training_mode, competitive.num_models) == (TrainingMode.COMPETITIVE, 4)


@pytest.mark.parametrize(("episodes", "warned"), [(1, "2 are"), (4, ""), (7, "4 are trained")])
def test_episodes_of_no_whole_round_cause_a_warning(episodes, warned, small, caplog):
    MultiModelTrainer(small(max_episodes=episodes, **SILENT)).get_training_status()
    assert ("max_episodes" in caplog.text) == bool(warned) and warned in caplog.text


def test_older_run_in_the_folder_is_moved(small, tmp_path, caplog):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    written = {}
    for seed in (0, 1):
        trainer = MultiModelTrainer(small(max_episodes=4, seed=seed))
        asyncio.run(trainer.train())
        written[seed] = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    kept = [tmp_path / name / "metrics.jsonl" for name in ("run-1", "run")]
    assert [path.read_bytes() for path in kept] == [written[seed] for seed in (0, 1)]
    assert list_available_checkpoints(tmp_path / "run-1")
    assert len(list_available_checkpoints(tmp_path / "run")) == 1
    assert (tmp_path / "run" / "notes.txt").read_text() == "mine"
    assert f"{tmp_path / 'run'} held a run: it is in {tmp_path / 'run-1'} now" in caplog.text


# Recovery from errors, as documented.


def test_training_continues_after_an_episode_timeout(small):
    with chat_server() as server:
        trainer = MultiModelTrainer(small(model_types=["tiny", "openai"], **SILENT))

        async def session():
            trainer.train_round()
            trainer.config.episode_timeout = 0.2
            server.delay = lambda body: 1.0
            with pytest.raises(asyncio.TimeoutError, match="Episode timeout"):
                await trainer.train()
            await trainer._save_checkpoint(trainer.current_episode)
            trainer.config.episode_timeout = None
            server.delay = lambda body: 0.0
            return await trainer.train()

        results = asyncio.run(session())
    assert results["total_episodes"] == 8
    assert set(results["checkpoints_saved"]) == {"round_00000001", "final_round_00000002"}


def test_training_continues_from_the_last_checkpoint_after_out_of_memory(small, monkeypatch):
    trainer = MultiModelTrainer(small(max_episodes=16, **SILENT))
    trainer.train_round()
    before = weights(trainer.run)

    def too_much(self, *batches):
        monkeypatch.undo()
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(type(trainer.run.learners["model_1"]), "learn", too_much)
    with pytest.raises(RuntimeError, match="GPU memory insufficient") as caught:
        asyncio.run(trainer.train())
    assert isinstance(caught.value.__cause__, torch.OutOfMemoryError)
    trainer.config.batch_size //= 16
    assert same(weights(trainer.run), before)
    results = asyncio.run(trainer.train())
    assert (results["training_completed"], results["total_episodes"]) == (True, 16)
    assert trainer.run.config.algorithm.minibatches == 2
