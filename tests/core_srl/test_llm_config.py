"""Settings of managers, nodes, adapters and algorithms: every wrong one is named."""

import re

import pytest

from core_srl import (
    CompetenceFactor,
    CompetenceType,
    CooperationFactor,
    CooperationType,
    LLMConfig,
    LoRAConfig,
    MonitoringConfig,
    RLConfig,
)
from core_srl.algorithms import factor_settings
from core_srl.llm_config import ANSWER_TOKENS, sampling_with
from srl_agents.llm.sampling import Sampling
from srl_train.config.yaml_file import from_tree
from srl_train.errors import ConfigError

SHARED = CooperationType.SHARED_REWARDS
SPECIALIZED = CompetenceType.SPECIALIZED


@pytest.mark.parametrize(
    ("kind", "settings", "named"),
    [
        (LLMConfig, {"backend": "mock"}, "Unsupported LLM backend"),
        (LLMConfig, {"max_length": 1}, "max_length"),
        (LLMConfig, {"backend": "vllm", "port": 0}, "port"),
        (LLMConfig, {"api_key": "secret"}, "api_key has no effect where backend is"),
        (LLMConfig, {"backend": "vllm", "enable_lora": True}, "enable_lora"),
        (LLMConfig, {"colour": "red"}, "colour"),
        (LoRAConfig, {"lora_id": -1}, "lora_id"),
        (LoRAConfig, {"lora_id": 0, "target_modules": "q_proj"}, "target_modules"),
        (MonitoringConfig, {"log_file_path": ""}, "log_file_path"),
        (RLConfig, {"algorithm": "sac"}, "algorithm"),
        (CooperationFactor, {"shared_reward_ratio": 0.9}, "shared_reward_ratio"),
        (CompetenceFactor, {"experience_decay": 0.5}, "experience_decay"),
    ],
)
def test_error_names_an_invalid_setting_in_one_line(kind, settings, named):
    with pytest.raises(ConfigError, match=re.escape(named)) as caught:
        kind(**settings)
    assert "\n" not in str(caught.value) and "secret" not in str(caught.value)


def test_settings_do_not_change():
    config = LLMConfig(backend="vllm", model_name="m")
    assert (config.backend.value, config.model_name) == ("vllm", "m")
    assert LLMConfig().sampling == Sampling(temperature=0.7, max_new_tokens=ANSWER_TOKENS)
    assert "secret" not in repr(LLMConfig(backend="anthropic", api_key="secret"))
    with pytest.raises(ValueError, match="port"):
        config.port = 9
    with pytest.raises(ConfigError, match="lora_id"):
        LoRAConfig()


def test_node_settings_replace_default_sampling():
    usual = Sampling(temperature=0.5, max_new_tokens=7)
    own = {"top_k": 2, "temperature": 0}
    assert sampling_with(usual, own) == Sampling(temperature=0, top_k=2, max_new_tokens=7)
    for wrong in ({"temprature": 1.0}, {"top_k": 1.5}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            sampling_with(usual, wrong)


@pytest.mark.parametrize(
    ("factor", "settings"),
    [
        ({}, {}),
        (
            {"cooperation_type": "TEAM_BASED", "cooperation_strength": 0.4},
            {"mode.cooperation_strength": 0.4, "credit.name": "team_joint"},
        ),
        (
            {"cooperation_type": "SHARED_REWARDS", "shared_reward_ratio": 0.7},
            {"mode.cooperation_strength": 0.7},
        ),
        (
            {"cooperation_type": "KNOWLEDGE_TRANSFER", "knowledge_transfer_rate": 0.3},
            {"updates.strategy": "federated", "updates.mix": 0.3},
        ),
    ],
)
def test_factors_become_settings_of_a_run(factor, settings):
    usual = {"mode.name": "cooperative", "mode.cooperation_strength": 0.0}
    kind = CooperationType[factor.get("cooperation_type", "NONE")]
    cooperation = CooperationFactor(**{**factor, "cooperation_type": kind})
    found = factor_settings(cooperation, CompetenceFactor())
    assert found == usual | {"credit.name": "per_agent"} | settings
    from_tree({}, found)


def test_team_and_role_credit_exclude_each_other():
    team = CooperationFactor(cooperation_type=CooperationType.TEAM_BASED, cooperation_strength=0.4)
    with pytest.raises(ConfigError, match="team_based"):
        factor_settings(team, CompetenceFactor(competence_type=SPECIALIZED))


def test_algorithm_settings_apply_to_a_run():
    kept = from_tree({}, {"rounds": 3, "rollout.group_size": 4, "rollout.groups_per_round": 2})
    run = RLConfig(learning_rate=1e-4, gamma=0.9, batch_size=3).applied_to(kept)
    assert (run.algorithm.name, run.algorithm.learning_rate) == ("ppo", 1e-4)
    assert (run.rollout.discount, run.rounds, run.rollout.group_size) == (0.9, 3, 4)
    assert run.algorithm.minibatches == 4  # of 8 samples: 3 divides no group
    assert RLConfig().applied_to().algorithm.minibatches == 1
    shared = CooperationFactor(cooperation_type=SHARED, shared_reward_ratio=0.7)
    role = CompetenceFactor(competence_type=SPECIALIZED, experience_decay=0.8)
    run = RLConfig(algorithm="grpo", cooperation_factor=shared, competence_factor=role).applied_to()
    assert (run.mode.name, run.mode.cooperation_strength) == ("cooperative", 0.7)
    assert (run.credit.name, run.credit.decay, run.algorithm.name) == ("role", 0.8, "grpo")
