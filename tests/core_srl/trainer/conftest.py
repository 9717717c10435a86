"""Short trainings of the documented trainer; the embedded model of one game plays them all."""

import asyncio
from pathlib import Path

import pytest

from core_srl import MultiModelConfig, MultiModelTrainer
from core_srl.config import multi_model
from srl_agents.llm import tiny

SMALL = {
    "num_models": 2,
    "model_types": ["tiny"],
    "max_episodes": 8,
    "update_frequency": 4,
    "episode_length": 8,
    "save_interval": 4,
    "learning_rate": 3e-3,
    "num_gpus": 0,
}


@pytest.fixture(scope="package", autouse=True)
def one_model_and_few_games(tiny_folder):
    """No other embedded model is built, and two games are an evaluation."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny, "folder", lambda make_env, **_: Path(tiny_folder))
        patch.setattr(multi_model, "EVALUATION_EPISODES", 2)
        yield


@pytest.fixture
def small(tmp_path):
    def build(**changes):
        return MultiModelConfig(**{**SMALL, "checkpoint_dir": str(tmp_path / "run"), **changes})

    return build


@pytest.fixture(scope="package")
def trained(tmp_path_factory):
    """A trainer after its two rounds, and what `train` returned."""
    folder = tmp_path_factory.mktemp("trained")
    trainer = MultiModelTrainer(MultiModelConfig(**SMALL, checkpoint_dir=str(folder)))
    return trainer, asyncio.run(trainer.train())
