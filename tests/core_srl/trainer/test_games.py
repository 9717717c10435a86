"""How many games the documented trainer plays, and what it calls its models."""

import asyncio

import pytest

from core_srl import MultiModelConfig, MultiModelTrainer, load_checkpoint_metadata
from srl_train.errors import TrainingError


@pytest.fixture
def small(tmp_path):
    def build(**changes):
        settings = {
            "num_models": 2, "model_types": ["tiny"], "max_episodes": 4, "update_frequency": 4,
            "episode_length": 8, "learning_rate": 3e-3, "num_gpus": 0, "enable_monitoring": False,
            "checkpoint_dir": str(tmp_path / "run"),
        }  # fmt: skip
        return MultiModelConfig(**settings | changes)

    return build


def test_no_more_games_are_played_than_max_episodes_has(small, caplog):
    trainer = MultiModelTrainer(small(max_episodes=7))
    results = asyncio.run(trainer.train())
    assert (results["training_completed"], results["total_episodes"]) == (True, 4)
    assert "max_episodes is 7: 4 games are played, for the models update after every 4" in (
        caplog.text
    )
    assert trainer.get_training_status()["progress"] == 1.0
    few = MultiModelTrainer(small(max_episodes=3))
    with pytest.raises(TrainingError, match="episode_num is 3, the next is 3 of 3"):
        asyncio.run(_games(few, 4))
    assert few.run.versions == {"model_0": 1, "model_1": 1}
    few.config.max_episodes = 8
    with pytest.raises(TrainingError, match="give update_frequency=3 from the beginning"):
        few.train_round()


def test_games_after_the_last_whole_round_can_be_played(small):
    trainer = MultiModelTrainer(small(max_episodes=6))
    asyncio.run(_games(trainer, 6))
    assert (trainer.current_episode, trainer.run.next_round) == (6, 1)
    trainer.config.max_episodes = 8
    asyncio.run(trainer.train())
    assert (trainer.current_episode, trainer.run.next_round) == (8, 2)


async def _games(trainer, number):
    for n in range(number):
        await trainer.train_multi_model_episode(n)


def test_a_kind_of_model_has_one_name(small):
    trainer = MultiModelTrainer(small())
    results = trainer.fit()
    assert results["final_model_states"] == trainer.get_model_performance_summary()
    assert results["final_model_states"]["model_0"]["model_type"] == "tiny"
    saved = load_checkpoint_metadata(results["checkpoints_saved"][-1], trainer.files.folder)
    for state in saved["model_states"].values():
        assert (state["kind"], state.get("model_type")) == ("full", None)
