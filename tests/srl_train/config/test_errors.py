"""Errors of wrong configurations: one line that begins with the name of the setting."""

import pytest

from srl_train.config.yaml_file import load
from srl_train.errors import ConfigError

UNKNOWN = [
    ("rollot: {}", "rollot: unknown setting; did you mean 'rollout'"),
    ("algorithm: {num_generations: 1}", "setting where name is 'grpo'; set rollout.group_size"),
    ("xyz: 1", "xyz: unknown setting; allowed: environment, models"),
    ('"a\\e[2J": 1', "a\\x1b[2J: unknown setting"),
    ("learning_rate: 1", "learning_rate: unknown setting; set algorithm.learning_rate"),
    ("updates: {mix: 0.5}", "updates.mix: unknown setting where strategy is 'asynchronous'"),
    ("sft: {epoch: 1}", "sft.epoch: unknown setting; did you mean 'epochs'"),
    ("backend: {kept_tokens: 5}", "backend.kept_tokens: renamed to 'kv_cache_tokens'"),
    ("engine: {name: ray, players: 2}", "engine.players: renamed to 'rollout_workers'"),
    ("engine: {players: 2}", "engine.players: renamed to 'rollout_workers', which is unknown"),
    ("opponent_pools: {past: {of: [model_0]}}", "opponent_pools.past.of: renamed to 'models'"),
]
WRONG = [
    ("rounds", "rounds: 0"),
    ("rounds", "rounds: true"),
    ("seed", "seed: 10000000000000000000000"),
    ("checkpoints.keep", "checkpoints: {keep: 0}"),
    ("environment", "environment:"),
    ("environment.options", "environment: {options: 7}"),
    ("models.base", "models: {count: 3, base: [a, b]}"),
    ("models.base[1]", "models: {base: [a, 3, c, d]}"),
    ("models.adapters.rank", "models: {adapters: {rank: 0}}"),
    ("models.quantization", "models: {quantization: nf4}"),
    ("models.agent_sampling.a.temperature", "models: {agent_sampling: {a: {temperature: -1}}}"),
    ("models.frozen_models.a.b", "models: {frozen_models: {a.b: tiny}}"),
    ("algorithm", "algorithm: grpo"),
    ("updates", "updates: asynchronous"),
    ("updates.strategy", "updates: {strategy: async}"),
    ("algorithm.learning_rate", "algorithm: {learning_rate: .nan}"),
    ("algorithm.minibatches", "algorithm: {minibatches: 3}"),
    ("algorithm.level", "algorithm: {name: ppo, critic: central, level: token}"),
    ("algorithms", "algorithms: {model_9: {name: ppo}}"),
    ("algorithms.model_1.minibatches", "algorithms: {model_1: {minibatches: 3}}"),
    ("mode.name", "mode: {name: [mixed]}"),
    ("credit.name", "credit: {name: shapley}"),
    ("algorithm.scale_rewards", "{credit: {name: role}, algorithm: {scale_rewards: batch}}"),
    ("updates.period", "{rounds: 5, updates: {strategy: federated, period: 6}}"),
    ("updates.sample_budget", "updates: {sample_budget: {model_9: 8}}"),
    ("updates.sample_budget.model_0", "updates: {sample_budget: {model_0: 12}}"),
    ("updates.groups[0]", "updates: {groups: [[]], strategy: federated}"),
    ("backend.name", "backend: {name: llama}"),
    ("sft.answer_weight", "sft: {answer_weight: 0}"),
    ("dpo.episodes", "dpo: {episodes: 12}"),
    ("opponent_pools.past", "{opponent_pools: {past: {}}, seats: {agent_0: pasta}}"),
    ("opponent_pools.uniform", "{opponent_pools: {uniform: {}}, seats: {agent_0: uniform}}"),
    ("opponent_pools.model_9", "{opponent_pools: {model_9: {}}, seats: {agent_0: model_9}}"),
    (
        "opponent_pools.past.models",
        "{opponent_pools: {past: {models: [model_7]}}, seats: {agent_0: past}}",
    ),
    ("a configuration", "[1, 2]"),
]


def refusal(text, tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        load(path)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(("text", "message"), UNKNOWN)
def test_unknown_setting_error_names_the_nearest_or_renamed_setting(text, message, tmp_path):
    assert message in refusal(text, tmp_path)


@pytest.mark.parametrize(("setting", "text"), WRONG)
def test_wrong_value_error_begins_with_the_setting(setting, text, tmp_path):
    assert refusal(text, tmp_path).startswith((f"{setting}: ", f"{setting} "))


def test_unreadable_file_raises_config_error(tmp_path):
    for path in (tmp_path / "nowhere.yaml", tmp_path):
        with pytest.raises(ConfigError, match="cannot read"):
            load(path)
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"cannot read .*utf-8"):
        load(path)
    assert "line 3" in refusal("sft: {beta: 0.1}\nseed: 1\nsft: {beta: 0.1}", tmp_path)
    assert "line 2" in refusal("yes: 1\ntrue: 2", tmp_path)


def test_value_out_of_range_error_says_what_is_allowed(tmp_path):
    assert refusal("models: {count: 0}", tmp_path) == (
        "models.count: must be greater than or equal to 1, got 0"
    )
