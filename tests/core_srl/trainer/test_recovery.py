"""The documented recovery: what is undone, and what may change between two rounds."""

import asyncio

import pytest
import torch

from core_srl import MultiModelTrainer
from tests.servers.chat_server import chat_server


def test_games_that_take_too_long_are_given_up_and_played_again(small):
    """As the documents recover: save, and on."""
    with chat_server() as server:
        settings = {"model_types": ["tiny", "openai"], "enable_monitoring": False}
        trainer = MultiModelTrainer(small(**settings))

        async def session():
            trainer.train_round()
            trainer.config.episode_timeout = 0.2
            server.delay = lambda body: 1.0
            try:
                await trainer.train()
            except TimeoutError as error:
                assert "Episode timeout" in str(error)
                await trainer._save_checkpoint(trainer.current_episode)
                trainer.config.episode_timeout = None
                server.delay = lambda body: 0.0
                return await trainer.train()
            raise AssertionError("nothing took too long")

        results = asyncio.run(session())
    assert results["total_episodes"] == 8
    assert set(results["checkpoints_saved"]) == {"round_00000001", "final_round_00000002"}


def test_where_play_had_gone_ahead_training_goes_on_from_the_last_checkpoint(small, monkeypatch):
    trainer = MultiModelTrainer(small(max_episodes=16, enable_areal=True, enable_monitoring=False))
    trainer.train_round()
    assert len(trainer.checkpoints_saved) == 1

    def too_much(self, *asked):
        monkeypatch.undo()
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(type(trainer.run.learners["model_1"]), "learn", too_much)
    with pytest.raises(RuntimeError, match="GPU memory insufficient"):
        asyncio.run(trainer.train())
    trainer.config.batch_size //= 2
    results = asyncio.run(trainer.train())
    assert (results["training_completed"], results["total_episodes"]) == (True, 16)
    assert trainer.run.config.engine.play_ahead is True


def weights_of(trainer):
    return {
        (model, name): tensor.clone()
        for model, learner in trainer.run.learners.items()
        for name, tensor in learner.weights().items()
    }


def test_a_round_in_which_memory_runs_out_is_played_again_with_smaller_steps(
    small, trained, monkeypatch
):
    """As the documents recover: fewer samples in a step, and on."""
    kept, _ = trained
    trainer = MultiModelTrainer(small(enable_monitoring=False))
    trainer.train_round()
    before = weights_of(trainer)
    learner = trainer.run.learners["model_1"]

    def too_much():
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(learner, "end_update", too_much)  # model_0 has learned by then
    with pytest.raises(RuntimeError, match="GPU memory insufficient") as caught:
        asyncio.run(trainer.train())
    assert isinstance(caught.value.__cause__, torch.OutOfMemoryError)
    now = weights_of(trainer)
    assert all(torch.equal(now[name], tensor) for name, tensor in before.items())
    assert trainer.get_training_status()["current_episode"] == 4

    trainer.config.batch_size //= 8
    results = asyncio.run(trainer.train())
    assert trainer.run.config.algorithm.minibatches == 1
    assert results["total_episodes"] == 8
    assert results["training_metrics"]["weight_update_counts"] == {"model_0": 2, "model_1": 2}
    # Four samples fitted into one step before, too: so nothing is lost and nothing counted twice.
    assert [*map(torch.sum, weights_of(trainer).values())] == [
        *map(torch.sum, weights_of(kept).values())
    ]


def test_smaller_steps_after_the_first_round_are_taken(small):
    trainer = MultiModelTrainer(small(enable_monitoring=False))
    trainer.train_round()
    after = weights_of(trainer)
    trainer.config.batch_size = 2
    assert trainer.get_training_status()["current_episode"] == 4
    now = weights_of(trainer)
    assert all(torch.equal(now[name], tensor) for name, tensor in after.items())
    assert trainer.run.config.algorithm.minibatches == 2
    results = asyncio.run(trainer.train())
    assert results["training_metrics"]["weight_update_counts"] == {"model_0": 2, "model_1": 2}
