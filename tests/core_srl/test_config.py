"""The documented settings of a run, and their effects on a machine."""

import re

import pytest

from core_srl import config as documented
from core_srl import models
from core_srl.config import MultiModelConfig, TrainingMode, minibatches
from core_srl.models import MODERN_MODELS, get_available_models, get_version_info
from srl_extensions.vllm.placement import Gpu
from srl_train.config.models import AdapterConfig
from srl_train.errors import ConfigError


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch):
    """A machine without GPUs, models and keys."""
    monkeypatch.setattr(documented, "find_gpus", list)
    monkeypatch.setattr(models, "is_cached", lambda name: False)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "CORE_SRL_MODELS"):
        monkeypatch.delenv(name, raising=False)


def machine(monkeypatch, gpus, ray=True):
    there = [Gpu(index, 80.0, 80.0) for index in range(gpus)]
    monkeypatch.setattr(documented, "find_gpus", lambda: there)
    monkeypatch.setattr(documented.importlib.util, "find_spec", lambda name: ray or None)


def bases(config):
    return tuple(config.to_run_config().models.bases.values())


def test_defaults_on_a_machine_without_models_keys_and_gpus():
    config = MultiModelConfig()
    run = config.to_run_config()
    assert run.environment.name == "coop_compete_v0"
    assert run.environment.options == {
        "num_agents": 4, "cooperation_level": 0.6, "difficulty": 0.3, "max_cycles": 32,
    }  # fmt: skip
    assert tuple(run.models.bases.values()) == ("tiny",) * 4
    assert (run.rollout.group_size, run.rollout.groups_per_round, run.rounds) == (10, 1, 100)
    assert run.algorithm.minibatches == 1
    assert (run.checkpoints.every, run.checkpoints.keep, run.logging.every) == (10, 10, 1)
    notes = " ".join(config.here().notes)
    for reason in ("qwen3: not on", "no OPENAI_API_KEY", "no ANTHROPIC", "num_gpus", "areal"):
        assert reason in notes


def test_defaults_on_a_machine_with_models_keys_and_gpus(monkeypatch, tmp_path):
    machine(monkeypatch, gpus=4)
    monkeypatch.setenv("OPENAI_API_KEY", "a key")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a key")
    names = (MODERN_MODELS["qwen3"], MODERN_MODELS["llama3"])
    monkeypatch.setenv("CORE_SRL_MODELS", ",".join(f"{name}={tmp_path}" for name in names))
    config = MultiModelConfig()
    run = config.to_run_config()
    assert config.here().notes == ()
    assert tuple(run.models.bases.values()) == names
    assert run.models.adapters == AdapterConfig()
    assert run.models.frozen_models == {
        "openai_1": "openai:gpt-4o", "claude_2": "anthropic:claude-3-5-sonnet-20241022",
    }  # fmt: skip
    assert run.seats == {
        "agent_0": "model_0", "agent_1": "openai_1", "agent_2": "claude_2", "agent_3": "model_1",
    }  # fmt: skip
    assert (run.engine.name, run.engine.play_ahead, run.updates.max_staleness) == ("ray", True, 1)
    assert run.engine.learner_gpus == run.engine.rollout_worker_gpus == 1.0
    assert config.types_by_model() == {
        "model_0": "qwen3", "openai_1": "openai", "claude_2": "claude", "model_1": "llama3",
    }  # fmt: skip


VLLM = {"backend": "vllm", "model_types": ["tiny"]}
READ = {  # documented field -> another value -> its effect on the run
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
    "kv_cache_size": (5000, lambda run: run.backend.kv_cache_tokens == 5000),
    "enable_monitoring": (False, lambda run: run.logging.evaluation_episodes == 0),
    "log_metrics_interval": (40, lambda run: run.logging.every == 4),
    "seed": (7, lambda run: run.seed == 7),
}


def test_every_field_has_an_effect():
    assert set(MultiModelConfig.model_fields) == set(READ) | {"checkpoint_dir", "base_port"}


@pytest.mark.parametrize("name", READ)
def test_field_set_after_construction_has_its_effect(name):
    value, arrived = READ[name]
    assert arrived(MultiModelConfig(**{name: value}).to_run_config())
    assert not arrived(MultiModelConfig().to_run_config())
    config = MultiModelConfig()
    setattr(config, name, value)
    assert arrived(config.to_run_config())


def test_vllm_servers_have_ports_from_the_base_port_on(monkeypatch):
    run = MultiModelConfig(**VLLM, base_port=9001, num_gpus=2).to_run_config()
    assert (run.backend.managed.base_port, run.backend.managed.gpus) == (9001, None)
    machine(monkeypatch, gpus=4)
    run = MultiModelConfig(**VLLM, num_gpus=2).to_run_config()
    assert (run.backend.managed.base_port, run.backend.managed.gpus) == (8001, (0, 1))


@pytest.mark.parametrize(
    ("wanted", "there", "ray", "share"),
    [(8, 4, True, 1 / 3), (4, 1, True, None), (4, 4, False, None)],
)
def test_models_share_the_gpus(monkeypatch, wanted, there, ray, share):
    machine(monkeypatch, gpus=there, ray=ray)
    config = MultiModelConfig(num_models=8, num_gpus=wanted, model_types=["tiny"])
    run = config.to_run_config()
    assert run.models.device == "auto"
    assert run.engine.name == ("local" if share is None else "ray")
    if share is not None:
        assert run.engine.learner_gpus == run.engine.rollout_worker_gpus == share
    notes = " ".join(config.here().notes)
    assert (f"num_gpus is {wanted}, and {there} are here" in notes) == (wanted > there)
    assert ("extra ray" in notes) == (not ray)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"num_models": 0}, "Invalid number of models"),
        ({"model_types": ["qwen4"]}, "model_types: got 'qwen4'"),
        ({"update_frequency": 17}, "update_frequency"),
        ({"batch_size": 1, "update_frequency": 48}, "batch_size must be at least 3"),
        ({"backend": "openai_api"}, "Unsupported LLM backend"),
        ({**VLLM, "kv_cache_size": 5}, "kv_cache_size"),
        ({"max_concurrent_tasks": 4}, "max_concurrent_tasks"),
    ],
)
def test_error_names_an_invalid_value_in_one_line(settings, named):
    with pytest.raises(ConfigError, match=re.escape(named)) as caught:
        MultiModelConfig(**settings)
    assert "\n" not in str(caught.value)
    assert not re.search(r"\b(checkpoints|algorithm|mode)\.", str(caught.value)), "core's name"


@pytest.mark.parametrize("name", ["max_concurrent_tasks", "num_models"])
def test_invalid_value_cannot_be_assigned(name):
    with pytest.raises(ConfigError, match=name):
        setattr(MultiModelConfig(), name, 0)


def test_names_without_types_become_the_types():
    names = {"mine": "/models/m", "llama3": "/models/l"}
    assert bases(MultiModelConfig(num_models=2, model_names=names)) == ("/models/m", "/models/l")
    config = MultiModelConfig(num_models=2, model_types=["qwen3", "openai"])
    config.model_names = {"qwen3": "/models/q", "openai": "gpt-5"}
    assert config.model_types == ["qwen3", "openai"]
    assert config.to_run_config().models.frozen_models == {"openai_1": "openai:gpt-5"}
    config.model_names = names
    config.num_models = 3
    assert bases(config) == ("/models/m", "/models/l", "/models/m")


def test_large_hub_models_train_adapters():
    def adapters(kind, **names):
        config = MultiModelConfig(num_models=1, model_types=[kind], **names)
        return config.to_run_config().models.adapters

    assert adapters("qwen3") == adapters("llama3") == AdapterConfig()
    small = {"model_names": {"small": "Qwen/Qwen2.5-0.5B-Instruct"}}
    assert adapters("small", **small) is None and adapters("tiny") is None
    assert adapters("qwen3", enable_lora=False) is None


@pytest.mark.parametrize(
    ("max_episodes", "update_frequency", "rounds"),
    [(100, 10, (10, 10, 10)), (95, 10, (9, 10, 10)), (17, 32, (1, 16, 16)), (1, 10, (1, 2, 2))],
)
def test_episodes_are_divided_into_rounds(max_episodes, update_frequency, rounds):
    config = MultiModelConfig(max_episodes=max_episodes, update_frequency=update_frequency)
    assert config.rounds() == rounds


def test_minibatches_divide_the_group():
    assert [minibatches(48, size, 16) for size in (48, 24, 20, 3)] == [1, 2, 4, 16]


def test_available_models_and_versions(monkeypatch):
    available = get_available_models()
    assert available["tiny"] == ["tiny"] and available["openai"] == ["gpt-4o"]
    assert available["qwen3"] == [MODERN_MODELS["qwen3"]]
    assert {"version", "torch", "trl"} <= get_version_info().keys()
    monkeypatch.setattr(models, "versions", dict)
    assert get_version_info() == {"version": "not installed"}
