"""The documented settings, environments and descriptions."""

import json
import re
from itertools import product

import pytest
import torch

from core_srl import models
from core_srl.config.multi_model import (
    MultiModelConfig,
    TrainingMode,
    WeightUpdateStrategy,
)
from core_srl.models import MODERN_MODELS, get_available_models, get_version_info
from srl_extensions.vllm.placement import Gpu
from srl_train.config.models import AdapterConfig
from srl_train.errors import ConfigError
from srl_train.modes import (
    CompetitiveConfig,
    CooperativeConfig,
    HierarchicalConfig,
    MixedConfig,
)


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


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch):
    """Without GPUs, models and keys; a test adds what it is about."""
    monkeypatch.setattr(models, "find_gpus", list)
    monkeypatch.setattr(models, "_is_cached", lambda name: False)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "CORE_SRL_MODELS"):
        monkeypatch.delenv(name, raising=False)


def gpus(monkeypatch, number):
    there = [Gpu(index, 80.0, 80.0) for index in range(number)]
    monkeypatch.setattr(models, "find_gpus", lambda: there)


def test_the_defaults_as_a_run():
    config = MultiModelConfig()
    run = config.to_run_config()
    assert run.environment.name == "coop_compete_v0"
    assert run.environment.options == {
        "num_agents": 4, "cooperation_level": 0.6, "difficulty": 0.3, "max_cycles": 32,
    }  # fmt: skip
    assert tuple(run.models.bases.values()) == ("tiny",) * 4
    assert (run.rollout.group_size, run.rollout.groups_per_round) == (10, 1)
    assert run.algorithm.minibatches == 1
    assert run.rounds == 100
    assert (run.checkpoints.every, run.checkpoints.keep, run.logging.every) == (10, 10, 1)
    assert "; ".join(config.here().told) == (
        "the embedded model 'tiny' learns in place of others (qwen3: not on this machine; openai: "
        "no OPENAI_API_KEY; claude: no ANTHROPIC_API_KEY; llama3: not on this machine); num_gpus "
        "is 4, and 0 are here: models are on the CPU; games wait while models learn "
        "(enable_areal=True has them go on all the same)"
    )


def test_the_defaults_where_everything_is_there(monkeypatch, tmp_path):
    gpus(monkeypatch, 4)
    monkeypatch.setattr(models, "_has_ray", lambda: True)
    monkeypatch.setenv("OPENAI_API_KEY", "a key")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a key")
    names = (MODERN_MODELS["qwen3"], MODERN_MODELS["llama3"])
    monkeypatch.setenv("CORE_SRL_MODELS", ",".join(f"{name}={tmp_path}" for name in names))
    config = MultiModelConfig()
    run = config.to_run_config()
    assert config.here().told == ()
    assert tuple(run.models.bases.values()) == names
    assert run.models.adapters == AdapterConfig()
    assert run.models.frozen_models == {
        "openai_1": "openai:gpt-4o", "claude_2": "anthropic:claude-3-5-sonnet-20241022",
    }  # fmt: skip
    assert run.seats == {
        "agent_0": "model_0", "agent_1": "openai_1", "agent_2": "claude_2", "agent_3": "model_1",
    }  # fmt: skip
    assert (run.engine.name, run.engine.play_ahead, run.updates.max_staleness) == ("ray", True, 1)
    assert run.engine.learner_gpus == run.engine.player_gpus == 1.0
    assert config.dealt_types() == {
        "model_0": "qwen3", "model_1": "llama3", "openai_1": "openai", "claude_2": "claude",
    }  # fmt: skip


VLLM = {"backend": "vllm", "model_types": ["tiny"]}
READ = {  # documented field -> another value -> what it becomes
    "num_models": (3, lambda run: run.models.count == 3),
    "model_types": (
        ["llama3"],
        lambda run: tuple(run.models.bases.values()) == (MODERN_MODELS["llama3"],) * 4,
    ),
    "model_names": (
        {"mine": "/a/b"},
        lambda run: tuple(run.models.bases.values()) == ("/a/b",) * 4,
    ),
    "enable_lora": (True, lambda run: run.models.adapters is not None),
    "training_mode": (TrainingMode.HIERARCHICAL, lambda run: run.mode.name == "hierarchical"),
    "weight_update_strategy": ("federated", lambda run: run.updates.strategy == "federated"),
    "max_episodes": (95, lambda run: run.rounds == 9),
    "episode_length": (16, lambda run: run.environment.options["max_cycles"] == 16),
    "max_new_tokens": (48, lambda run: run.models.sampling.max_new_tokens == 48),
    "constrained": (True, lambda run: run.models.constrained),
    "max_failed_fraction": (0.25, lambda run: run.max_failed_fraction == 0.25),
    "episode_timeout": (9.5, lambda run: run.rollout.timeout == 9.5),
    "update_frequency": (
        48,
        lambda run: (run.rollout.group_size, run.rollout.groups_per_round) == (16, 3),
    ),
    "learning_rate": (1e-5, lambda run: run.algorithm.learning_rate == 1e-5),
    "cooperation_strength": (0.8, lambda run: run.mode.cooperation_strength == 0.8),
    "competition_intensity": (0.7, lambda run: run.mode.competition_intensity == 0.7),
    "backend": ("vllm", lambda run: run.backend.name == "vllm"),
    "num_gpus": (0, lambda run: run.models.device == "cpu"),
    "batch_size": (5, lambda run: run.algorithm.minibatches == 2),
    "save_interval": (5, lambda run: run.checkpoints.every == 1),
    "max_checkpoints": (-1, lambda run: run.checkpoints.keep == -1),
    "enable_verl": (False, lambda run: not getattr(run.backend, "batched", True)),
    "enable_areal": (True, lambda run: run.engine.play_ahead and run.updates.max_staleness == 1),
    "kv_cache_size": (5000, lambda run: run.backend.kept_tokens == 5000),
    "enable_monitoring": (False, lambda run: run.logging.evaluation_episodes == 0),
    "log_metrics_interval": (40, lambda run: run.logging.every == 4),
    "seed": (7, lambda run: run.seed == 7),
}
BY_OTHERS = {"checkpoint_dir", "base_port"}


def test_every_field_is_read():
    assert set(MultiModelConfig.model_fields) == set(READ) | BY_OTHERS


def test_servers_stand_from_the_base_port_on(monkeypatch):
    run = MultiModelConfig(**VLLM, base_port=9001, num_gpus=2).to_run_config()
    assert (run.backend.managed.base_port, run.backend.managed.gpus) == (9001, None)
    gpus(monkeypatch, 4)
    run = MultiModelConfig(**VLLM, num_gpus=2).to_run_config()
    assert (run.backend.managed.base_port, run.backend.managed.gpus) == (8001, (0, 1))


def test_a_port_that_nothing_opens_is_told():
    told = MultiModelConfig(base_port=8001).here().told
    assert "base_port 8001 opens no port: models sample in this process" in told[-1]
    assert not any("base_port" in one for one in MultiModelConfig().here().told)


@pytest.mark.parametrize(
    ("wanted", "there", "ray", "share"),
    [(4, 8, True, 1 / 3), (8, 4, True, 1 / 3), (4, 1, True, None), (4, 4, False, None)],
)
def test_models_are_placed_on_so_many_gpus(monkeypatch, wanted, there, ray, share):
    gpus(monkeypatch, there)
    monkeypatch.setattr(models, "_has_ray", lambda: ray)
    config = MultiModelConfig(num_models=8, num_gpus=wanted, model_types=["tiny"])
    run = config.to_run_config()
    assert run.models.device == "auto"
    assert run.engine.name == ("local" if share is None else "ray")
    if share is not None:
        assert run.engine.learner_gpus == run.engine.player_gpus == share
    told = " ".join(config.here().told)
    assert (f"num_gpus is {wanted}, and {there} are here: {there} are used" in told) == (
        wanted > there
    )
    assert ("extra ray" in told) == (not ray)


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


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("num_models", 0, "Invalid number of models: 0"),
        ("num_models", 10**12, "num_models: got 1000000000000: give 1024 or less"),
        ("num_models", "four", "Invalid number of models: 'four'"),
        ("num_models", True, "Invalid number of models: True"),
        ("model_types", [], "model_types: got []: give one or more"),
        ("model_types", "qwen3", "model_types: got 'qwen3': give a list"),
        ("model_types", ["qwen4"], "model_types has 'qwen4': give one of tiny, qwen3,"),
        ("model_types", [["a"]], "model_types[0]: got ['a']: give text"),
        ("model_types", 5, "model_types: got 5: give a list"),
        ("model_names", 5, "model_names: got 5: give a mapping"),
        ("model_names", {"x": 5}, "model_names.x: got 5: give text"),
        ("enable_monitoring", "no", "enable_monitoring: got 'no': give true or false"),
        ("checkpoint_dir", 5, "checkpoint_dir: got 5: give text or a Path"),
        ("checkpoint_dir", None, "checkpoint_dir: got None"),
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
        ("model_types", ["claude"], "model_types is ['claude']: models behind an API never learn"),
        ("backend", "openai_api", "Unsupported LLM backend: LLMBackend.OPENAI_API"),
        ("backend", "mock", "backend: got 'mock': give one of 'huggingface', "),
        ("base_port", 0, "base_port: got 0"),
        ("enable_verl", 0, "enable_verl: got 0: give true or false"),
        ("kv_cache_size", 0, "kv_cache_size: got 0: give 1 or more"),
        ("episode_timeout", 0.0, "episode_timeout: got 0.0: give more than 0"),
        ("num_gpus", -1, "num_gpus: got -1: give 0 or more"),
        ("num_gpus", [1], "num_gpus: got [1]"),
        ("num_gpus", True, "num_gpus: got True"),
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


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"model_types": ["a"], "model_names": {"a": "/a", "b": "/b"}},
            "model_names has b, which model_types has not",
        ),
        ({"kv_cache_size": 5, "enable_verl": False}, "kv_cache_size is 5 where enable_verl is Fal"),
        ({**VLLM, "kv_cache_size": 5}, "kv_cache_size is 5: a vLLM server sizes its cache"),
        ({**VLLM, "enable_verl": False}, "enable_verl is False: a vLLM server"),
    ],
)
def test_settings_that_nothing_would_read_are_refused(settings, said):
    with pytest.raises(ConfigError, match=said):
        MultiModelConfig(**settings)


def test_names_without_types_are_the_types():
    names = {"mine": "/models/m", "llama3": "/models/l"}
    config = MultiModelConfig(num_models=2, model_names=names)
    assert tuple(config.to_run_config().models.bases.values()) == ("/models/m", "/models/l")
    config = MultiModelConfig(num_models=2, model_types=["qwen3", "openai"])
    config.model_names = {"qwen3": "/models/q", "openai": "gpt-5"}  # for the types there are
    assert config.model_types == ["qwen3", "openai"]
    assert config.to_run_config().models.frozen_models == {"openai_1": "openai:gpt-5"}
    config.model_names = names  # further ones
    assert config.model_types == ["mine", "llama3"]
    config.num_models = 3
    assert tuple(config.to_run_config().models.bases.values()) == (
        "/models/m",
        "/models/l",
        "/models/m",
    )


def test_large_models_of_the_hub_train_adapters():
    def adapters(kind, **names):
        config = MultiModelConfig(num_models=1, model_types=[kind], **names)
        return config.to_run_config().models.adapters

    assert adapters("qwen3") == adapters("llama3") == AdapterConfig()
    small = {"model_names": {"small": "Qwen/Qwen2.5-0.5B-Instruct"}}
    assert adapters("small", **small) is None and adapters("tiny") is None
    assert adapters("qwen3", enable_lora=False) is None


def test_models_are_averaged_with_those_of_the_same_base():
    config = MultiModelConfig(model_types=["tiny", "qwen3"], weight_update_strategy="federated")
    groups = (("model_0", "model_2"), ("model_1", "model_3"))
    assert config.to_run_config().updates.groups == groups
    config.model_types = ["tiny"]
    assert config.to_run_config().updates.groups == ()
    config = MultiModelConfig(model_types=["tiny", "qwen3"], weight_update_strategy="selective")
    assert config.to_run_config().updates.strategy == "selective"


def test_seats_of_another_environment_are_dealt_in_turn():
    config = MultiModelConfig(num_models=3, model_types=["tiny", "openai"])
    run = config.to_run_config(["a", "b", "c", "d"])
    assert run.seats == {"a": "model_0", "b": "openai_1", "c": "model_1", "d": "model_0"}
    assert run.models.count == 2


def test_types_are_dealt_in_turn():
    config = MultiModelConfig(num_models=3, model_types=["tiny", "qwen3"])
    assert tuple(config.to_run_config().models.bases.values()) == (
        "tiny",
        MODERN_MODELS["qwen3"],
        "tiny",
    )
    own = MultiModelConfig(num_models=1, model_types=["mine"], model_names={"mine": "/models/m"})
    assert tuple(own.to_run_config().models.bases.values()) == ("/models/m",)


@pytest.mark.parametrize("games", [2, 7, 10, 16, 18, 22, 48, 640])
def test_optimizer_steps_are_as_large_as_batch_size_allows(games):
    config = MultiModelConfig(update_frequency=games, batch_size=640, max_episodes=games)
    group = max(size for size in range(1, 17) if games % size == 0)
    for config.batch_size, seats in product([3, 8, 32], [1, 2, 3]):
        agents, samples = [f"a{i}" for i in range(4 * seats)], games * seats
        steps = [m for m in range(1, group + 1) if group % m == 0]
        allowed = [m for m in steps if samples / m <= config.batch_size]
        if not allowed:
            says = f"^batch_size is {config.batch_size}: the {samples} "
            with pytest.raises(ConfigError, match=says):
                config.to_run_config(agents)
            continue
        run = config.to_run_config(agents)
        learner, rollout = run.algorithm, run.rollout
        assert (rollout.group_size, rollout.groups_per_round) == (group, games // group)
        assert learner.minibatches == min(allowed), (config.batch_size, seats)


def test_descriptions():
    assert get_available_models()["qwen3"] == [MODERN_MODELS["qwen3"]]
    info = get_version_info()
    assert info["torch"] == torch.__version__
    assert "version" in info
    json.dumps(info)
