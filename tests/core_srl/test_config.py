"""The documented settings, environments and descriptions."""

import json
import re

import pytest
import torch

from core_srl.config import (
    MODERN_MODELS,
    MultiModelConfig,
    TrainingMode,
    WeightUpdateStrategy,
    get_available_models,
    get_version_info,
)
from srl_train.config.learning.credit import (
    CompetitiveConfig,
    CooperativeConfig,
    HierarchicalConfig,
    MixedConfig,
)
from srl_train.errors import ConfigError


def test_the_documented_defaults():
    config = MultiModelConfig()
    assert (config.num_models, config.max_episodes, config.episode_length) == (4, 1000, 32)
    assert (config.training_mode, config.weight_update_strategy) == (
        TrainingMode.MIXED,
        WeightUpdateStrategy.ASYNCHRONOUS,
    )
    assert (config.learning_rate, config.batch_size, config.update_frequency) == (3e-4, 32, 10)
    assert (config.cooperation_strength, config.competition_intensity) == (0.6, 0.4)
    assert (config.save_interval, config.max_checkpoints, config.log_metrics_interval) == (
        100, 10, 10,
    )  # fmt: skip
    assert config.checkpoint_dir == "./checkpoints/multimodel"
    assert config.enable_monitoring is True


def test_the_defaults_as_a_run():
    run = MultiModelConfig().to_run_config()
    assert run.environment.name == "coop_compete_v0"
    assert run.environment.options == {
        "num_agents": 4, "cooperation_level": 0.6, "difficulty": 0.3, "max_cycles": 32,
    }  # fmt: skip
    assert run.models.bases == ("tiny",) * 4
    assert (run.rollout.group_size, run.rollout.groups_per_round) == (10, 1)
    assert run.algorithm.minibatches == 1
    assert run.rounds == 100
    assert (run.checkpoints.every, run.checkpoints.keep, run.logging.every) == (10, 10, 1)


READ = {  # documented field -> another value -> what it becomes
    "num_models": (3, lambda run: run.models.count == 3),
    "model_types": (["llama3"], lambda run: run.models.bases == (MODERN_MODELS["llama3"],) * 4),
    "model_names": ({"tiny": "/a/b"}, lambda run: run.models.bases == ("/a/b",) * 4),
    "training_mode": (TrainingMode.HIERARCHICAL, lambda run: run.mode.name == "hierarchical"),
    "weight_update_strategy": ("federated", lambda run: run.updates.strategy == "federated"),
    "max_episodes": (95, lambda run: run.rounds == 10),
    "episode_length": (16, lambda run: run.environment.options["max_cycles"] == 16),
    "update_frequency": (
        48,
        lambda run: (run.rollout.group_size, run.rollout.groups_per_round) == (16, 3),
    ),
    "learning_rate": (1e-5, lambda run: run.algorithm.learning_rate == 1e-5),
    "cooperation_strength": (0.8, lambda run: run.mode.cooperation_strength == 0.8),
    "competition_intensity": (0.7, lambda run: run.mode.competition_intensity == 0.7),
    "num_gpus": (1, lambda run: run.models.device == "cuda"),
    "batch_size": (5, lambda run: run.algorithm.minibatches == 2),
    "save_interval": (5, lambda run: run.checkpoints.every == 1),
    "max_checkpoints": (-1, lambda run: run.checkpoints.keep == -1),
    "enable_monitoring": (False, lambda run: run.logging.evaluation_episodes == 0),
    "log_metrics_interval": (40, lambda run: run.logging.every == 4),
    "seed": (7, lambda run: run.seed == 7),
}
REFUSED = {  # documented field -> a value whose part is not there
    "base_port": 8001,
    "enable_verl": True,
    "enable_areal": True,
    "kv_cache_size": 10_000,
}
BY_THE_TRAINER = {"checkpoint_dir"}


def test_every_field_is_read_or_refused():
    assert set(MultiModelConfig.model_fields) == set(READ) | set(REFUSED) | BY_THE_TRAINER


@pytest.mark.parametrize("name", READ)
def test_is_read(name):
    value, arrived = READ[name]
    assert arrived(MultiModelConfig(**{name: value}).to_run_config())
    assert not arrived(MultiModelConfig().to_run_config())
    config = MultiModelConfig()
    setattr(config, name, value)  # also afterwards
    assert arrived(config.to_run_config())


@pytest.mark.parametrize(
    ("mode", "read"),
    [
        ("cooperative", CooperativeConfig(cooperation_strength=0.9)),
        ("competitive", CompetitiveConfig(competition_intensity=0.1)),
        ("mixed", MixedConfig(cooperation_strength=0.9, competition_intensity=0.1)),
        ("hierarchical", HierarchicalConfig(cooperation_strength=0.9)),
    ],
)
def test_both_strengths_may_stand_in_every_mode(mode, read):
    config = MultiModelConfig(
        training_mode=mode, cooperation_strength=0.9, competition_intensity=0.1
    )
    assert config.to_run_config().mode == read


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused(name):
    with pytest.raises(ConfigError, match=f"^{name} is .*(not part of this release|sizes itself)"):
        MultiModelConfig(**{name: REFUSED[name]})


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("num_models", 0, "Invalid number of models: 0"),
        ("num_models", "four", "Invalid number of models: 'four'"),
        ("num_models", True, "Invalid number of models: True"),
        ("model_types", [], "model_types: got []: give one or more"),
        ("model_types", "qwen3", "model_types: got 'qwen3': give a list"),
        ("model_types", ["qwen4"], "model_types has 'qwen4': give one of tiny, qwen3,"),
        ("model_types", ["tiny", "openai"], "model_types has 'openai': models behind an API"),
        ("model_types", ["claude"], "never train"),
        ("model_types", [["a"]], "model_types[0]: got ['a']: give text"),
        ("model_types", 5, "model_types: got 5: give a list"),
        ("model_names", 5, "model_names: got 5: give a mapping"),
        ("model_names", {"x": 5}, "model_names.x: got 5: give text"),
        ("enable_monitoring", "no", "enable_monitoring: got 'no': give true or false"),
        ("checkpoint_dir", 5, "checkpoint_dir: got 5: give text or a Path"),
        ("checkpoint_dir", None, "checkpoint_dir: got None"),
        ("base_port", 0, "base_port is 0: model servers are not part"),
        ("enable_verl", 0, "enable_verl is 0: VERL is not part"),
        ("training_mode", "friendly", "training_mode: got 'friendly': give one of 'cooperative', "),
        ("weight_update_strategy", "all", "weight_update_strategy: got 'all'"),
        ("max_episodes", 0, "max_episodes: got 0: give 1 or more"),
        ("max_episodes", 1.5, "max_episodes: got 1.5: give a whole number"),
        ("episode_length", 0, "episode_length: got 0"),
        ("update_frequency", 1, "update_frequency: got 1: give 2 or more"),
        ("update_frequency", 17, "update_frequency is 17: games are compared in groups of 2 to 16"),
        ("learning_rate", 0.0, "learning_rate: got 0.0: give more than 0"),
        ("learning_rate", "fast", "learning_rate: got 'fast': give a number"),
        ("cooperation_strength", 1.5, "cooperation_strength: got 1.5"),
        ("competition_intensity", -1.0, "competition_intensity: got -1.0"),
        ("num_gpus", 4, "num_gpus is 4: placement over several devices is not part"),
        ("num_gpus", -1, "num_gpus is -1"),
        ("num_gpus", [1], "num_gpus is [1]"),
        ("num_gpus", True, "num_gpus is True"),
        ("batch_size", 0, "batch_size: got 0"),
        ("save_interval", 0, "save_interval: got 0"),
        ("max_checkpoints", 0, "max_checkpoints: got 0: give 1 or more, or -1"),
        ("max_checkpoints", -2, "max_checkpoints: got -2"),
        ("log_metrics_interval", -5, "log_metrics_interval: got -5"),
        ("seed", -1, "seed: got -1"),
    ],
)
def test_wrong_values_are_named_in_one_line(name, value, said):
    with pytest.raises(ValueError, match=re.escape(said)) as caught:
        MultiModelConfig(**{name: value})
    assert "\n" not in str(caught.value)
    assert not re.search(r"\b(checkpoints|algorithm|mode)\.", str(caught.value)), "no name of ours"


def test_a_field_that_does_not_exist_cannot_be_set():
    config = MultiModelConfig()
    with pytest.raises(ValueError, match="max_concurrent_tasks"):
        config.max_concurrent_tasks = 4
    with pytest.raises(ConfigError, match=r"^max_concurrent_tasks: unknown"):
        MultiModelConfig(max_concurrent_tasks=4)


def test_types_are_dealt_in_turn():
    config = MultiModelConfig(num_models=3, model_types=["tiny", "qwen3"])
    assert config.to_run_config().models.bases == ("tiny", MODERN_MODELS["qwen3"], "tiny")
    own = MultiModelConfig(num_models=1, model_types=["mine"], model_names={"mine": "/models/m"})
    assert own.to_run_config().models.bases == ("/models/m",)


@pytest.mark.parametrize("games", [2, 7, 10, 16, 18, 22, 48, 640])
@pytest.mark.parametrize("batch_size", [3, 8, 32])
@pytest.mark.parametrize("seats", [1, 2, 3])
def test_optimizer_steps_are_as_large_as_batch_size_allows(games, batch_size, seats):
    config = MultiModelConfig(update_frequency=games, batch_size=640, max_episodes=games)
    config.batch_size = batch_size
    group = max(size for size in range(1, 17) if games % size == 0)
    samples = games * seats
    allowed = [m for m in range(1, group + 1) if group % m == 0 and samples / m <= batch_size]
    if not allowed:
        with pytest.raises(ConfigError, match=f"^batch_size is {batch_size}: the {samples} "):
            config.to_run_config(seats)
        return
    run = config.to_run_config(seats)
    learner, rollout = run.algorithm, run.rollout
    assert (rollout.group_size, rollout.groups_per_round) == (group, games // group)
    assert learner.minibatches == min(allowed)


def test_descriptions():
    assert get_available_models()["qwen3"] == [MODERN_MODELS["qwen3"]]
    info = get_version_info()
    assert info["torch"] == torch.__version__
    assert "version" in info
    json.dumps(info)
