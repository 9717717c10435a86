"""Wrong configurations are refused in one line, which starts with the name of the setting."""

import pytest

from srl_train.config.yaml_file import load
from srl_train.errors import ConfigError

UNKNOWN = [
    ("rollot: {}", "rollot: unknown: did you mean 'rollout'"),
    ("algorithm: {learning_rat: 1}", "algorithm.learning_rat: unknown where name is 'grpo': did"),
    ("updates: {stratgy: federated}", "updates.stratgy: unknown where strategy is 'asynchronous'"),
    ("models: {adapters: {rnak: 4}}", "models.adapters.rnak: unknown: did you mean 'rank'"),
    ("xyz: 1", "xyz: unknown: known: environment, models"),
    ("1: 2", "1: unknown: known:"),
    ('"a\\e[2J": 1', "a\\x1b[2J: unknown"),
    ("algorithm: {gae_lambda: 0.9}", "algorithm.gae_lambda: unknown where name is 'grpo': it is"),
    ("algorithm: {name: ppo, scale_rewards: none}", "algorithm.scale_rewards: unknown where"),
    ("mode: {name: cooperative, competition_intensity: 3}", "mode.competition_intensity: unknown"),
    ("updates: {mix: 0.5}", "updates.mix: unknown where strategy is 'asynchronous': it is read"),
    ("updates: {strategy: federated, server: {tau: 0.9}}", "updates.server.tau: unknown"),
    ("credit: {name: role, alternatives: 2}", "credit.alternatives: unknown where name is 'role'"),
    ("sft: {epoch: 1}", "sft.epoch: unknown: did you mean 'epochs'"),
]
VALUES = {
    "run": [
        ("rounds: 0", "rounds: got 0: give 1 or more, or a section sft or dpo"),
        ("{sft: {}, rounds: -1}", "rounds: got -1"),
        ("rounds: 104730", "rounds: got 104730: give 104729 or less"),
        ("rounds: 2.5", "rounds: got 2.5: give a whole number"),
        ("rounds: true", "rounds: got True"),
        ("rounds: '5'", "rounds: got '5'"),
        ("rounds:", "rounds: got None"),
        ("threads: 100000", "threads: got 100000: give 1024 or less"),
        ("seed: -1", "seed: got -1"),
        ("seed: 10000000000000000000000", "seed: got 1000"),
        ("max_failed_fraction: 1.5", "max_failed_fraction: got 1.5: give 1 or less"),
        ("checkpoints: {keep: 0}", "checkpoints.keep: got 0: give 1 or more, or -1 for all"),
        ("logging: {every: 0}", "logging.every: got 0"),
        ("environment: {name: 7}", "environment.name: got 7: give text"),
        ("environment: {options: 7}", "environment.options: got 7: give a mapping"),
        ("environment:", "environment: got None: give a section, which is a mapping"),
    ],
    "models": [
        ("models: {count: 1000000000000}", "models.count: got 1000"),
        ("models: {count: 3, base: [a, b]}", "models.base: got a list of 2 models where count is"),
        ("models: {base: [a, 3, c, d]}", "models.base[1]: got 3: give text"),
        ("models: {adapters: {rank: 0}}", "models.adapters.rank: got 0"),
        ("models: {adapters: {dropout: 1}}", "models.adapters.dropout: got 1"),
        ("models: {dtype: int8}", "models.dtype: got 'int8'"),
        ("models: {quantization: nf4}", "models.quantization: got 'nf4', and quantised weights"),
        ("models: {constrained: 1}", "models.constrained: got 1: give true or false"),
        ("models: {sampling: {top_p: 0}}", "models.sampling.top_p: got 0"),
        ("models: {sampling: {max_new_tokens: 2000000}}", "models.sampling.max_new_tokens: got"),
        ("models: {agent_sampling: {a: {temperature: -1}}}", "agent_sampling.a.temperature: got"),
        ("models: {agent_sampling: [1]}", "models.agent_sampling: got [1]: give a mapping"),
        ("models: {agent_sampling: {a: {}}, sampling: {top: 1}}", "models.sampling.top: unknown"),
    ],
    "rollout": [
        ("rollout: {group_size: 1}", "rollout.group_size: got 1: give 2 or more"),
        ("rollout: {group_size: 1000, groups_per_round: 1000}", "rollout.groups_per_round: got"),
        ("rollout: {discount: 1.1}", "rollout.discount: got 1.1"),
        ("rollout: [{}]", "rollout: got [{}]: give a section, which is a mapping"),
    ],
    "algorithm": [
        ("algorithm: {learning_rate: 0}", "algorithm.learning_rate: got 0: give more than 0"),
        ("algorithm: {learning_rate: '1e-3'}", "algorithm.learning_rate: got '1e-3': give a"),
        ("algorithm: {learning_rate: .nan}", "algorithm.learning_rate: got nan: give a finite"),
        (f"algorithm: {{learning_rate: 1{'0' * 400}}}", "algorithm.learning_rate: got 1"),
        ("algorithm: {minibatches: 3}", "algorithm.minibatches x gradient"),
        (
            "algorithm: {minibatches: 2, gradient_accumulation_steps: 3}",
            "algorithm.minibatches x gradient_accumulation_steps: got 6",
        ),
        ("algorithm: {reference: moving}", "algorithm.reference: got 'moving', which is read only"),
        ("algorithm: {beta: 0.1, reference_every: 5}", "algorithm.reference_every: got 5, which"),
        ("algorithm: {warmup_steps: 3}", "algorithm.warmup_steps: got 3, which is read only"),
        ("algorithm: {loss: mse}", "algorithm.loss: got 'mse': give one of 'dapo', 'grpo'"),
        ("algorithm: {loss: sapo, clip_range: 0.3}", "algorithm.clip_range: got 0.3, which is"),
        ("algorithm: grpo", "algorithm: got 'grpo': give a section, which is a mapping"),
        ("algorithms: {model_0: {name: a2c}}", "algorithms.model_0.name: got 'a2c': give one of"),
        ("algorithms: {model_9: {name: ppo}}", "algorithms: got 'model_9': the models are"),
        ("algorithms: {model_1: {minibatches: 3}}", "algorithms.model_1.minibatches x"),
        (
            "{models: {count: 1}, algorithm: {name: ppo}, algorithms: {model_0: {}}}",
            "algorithm: every model has its own in algorithms",
        ),
        ("algorithm: {name: ppo, gae_lambda: 2}", "algorithm.gae_lambda: got 2"),
    ],
    "mode": [
        ("mode: {name: [mixed]}", "mode.name: got \"['mixed']\": give one of 'cooperative'"),
        ("mode: {cooperation_strength: 1.2}", "mode.cooperation_strength: got 1.2"),
    ],
    "credit": [
        ("credit: {name: shapley}", "credit.name: got 'shapley': give one of 'per_agent'"),
        ("credit: {name: role, decay: 1.5}", "credit.decay: got 1.5"),
        ("{credit: {name: role}, algorithm: {scale_rewards: batch}}", "algorithm.scale_rewards"),
    ],
    "updates": [
        ("updates: {strategy: sync}", "updates.strategy: got 'sync': give one of 'asynchronous'"),
        ("updates: {strategy: federated, mix: 2}", "updates.mix: got 2: give 1 or less"),
        ("{rounds: 5, updates: {strategy: federated, period: 6}}", "updates.period: got 6 where"),
        ("updates: {strategy: selective, fraction: 2}", "updates.fraction: got 2"),
        ("updates: {max_staleness: -1}", "updates.max_staleness: got -1"),
        ("updates: {sample_budget: {model_9: 8}}", "updates.sample_budget: got 'model_9'"),
        ("updates: {sample_budget: {model_0: 12}}", "updates.sample_budget.model_0: got 12"),
        ("updates: {groups: [[]], strategy: federated}", "updates.groups[0]: got []"),
        ("updates: {groups: [[model_7]], strategy: federated}", "updates.groups: got 'model_7'"),
    ],
    "engine": [
        ("backend: {kept_tokens: 5, batched: false}", "backend.kept_tokens: got 5, which is read"),
        ("matchmaking: {name: elo}", "matchmaking.name: got 'elo'"),
    ],
    "stages": [
        ("sft: {epochs: 0}", "sft.epochs: got 0"),
        ("sft: {data: demos.jsonl}", "sft.data: got 'demos.jsonl': give a list"),
        ("sft: {data: [a], data_policy: uniform}", "sft.data_policy: got 'uniform', which is"),
        ("sft: {answer_weight: 0}", "sft.answer_weight: got 0 where observation_weight is 0"),
        ("sft: 3", "sft: got 3: give a section, which is a mapping"),
        ("dpo: {beta: 0}", "dpo.beta: got 0"),
        ("dpo: {loss: ppo}", "dpo.loss: got 'ppo': give one of 'sigmoid', 'hinge', 'ipo'"),
        ("dpo: {label_smoothing: 0.1}", "dpo.label_smoothing: got 0.1, which is read only where"),
        ("dpo: {loss: exo_pair}", "dpo.label_smoothing: got 0"),
        ("dpo: {episodes: 12}", "dpo.episodes: got 12: give a multiple of rollout.group_size (8)"),
    ],
    "players": [
        ("seats: {agent_0: 3}", "seats.agent_0: got 3: give text"),
        ("seats: agent_0", "seats: got 'agent_0': give a mapping"),
        (
            "{opponent_pools: {past: {}}, seats: {agent_0: pasta}}",
            "seats.agent_0: got 'pasta': did",
        ),
        ("{opponent_pools: {'../x': {}}, seats: {agent_0: '../x'}}", "opponent_pools.../x: got"),
        (
            "{opponent_pools: {'': {}}, seats: {agent_0: ''}}",
            "opponent_pools.: got '': give a name",
        ),
        ('opponent_pools: {"a\\n": {}}', "got 'a\\n': give a name"),
        (f"opponent_pools: {{{'p' * 65}: {{}}}}", "ppp': give a name of at most 64 letters"),
        (
            "models: {frozen_models: {a.b: tiny}}",
            "models.frozen_models.a.b: got 'a.b': give a name",
        ),
        ("{opponent_pools: {uniform: {}}, seats: {agent_0: uniform}}", "opponent_pools.uniform: "),
        ("{opponent_pools: {model_9: {}}, seats: {agent_0: model_9}}", "opponent_pools.model_9: "),
        (
            "{opponent_pools: {past: {of: [model_0, model_0]}}, seats: {agent_0: past}}",
            "opponent_pools.past.of: got ['model_0', 'model_0']: give each model once",
        ),
    ],
    "file": [
        ("[1, 2]", "a configuration is a mapping of sections, got list"),
        ("false", "a configuration is a mapping of sections, got bool"),
        ("sft: {beta: 0.1}\nseed: 1\nsft: {beta: 0.1}", "run.yaml: line 3: 'sft' is in this map"),
        ("yes: 1\ntrue: 2", "line 2: 'true' is in this mapping already, in line 1"),
        ("a: [", ": not YAML"),
    ],
}


def refusal(text, tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        load(path)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(("text", "message"), UNKNOWN)
def test_unknown_settings_are_refused_with_the_nearest_known_ones(text, message, tmp_path):
    assert message in refusal(text, tmp_path)


@pytest.mark.parametrize("section", VALUES)
def test_wrong_values_are_refused_with_the_name_of_the_setting(section, tmp_path):
    for text, message in VALUES[section]:
        found = refusal(text, tmp_path)
        assert message in found
        top, *below = found.partition(":")[0].split(".")
        assert [top] != below[:1], "a path is written once"


def test_unreadable_files_are_refused(tmp_path):
    for path in (tmp_path / "nowhere.yaml", tmp_path):
        with pytest.raises(ConfigError, match="cannot read"):
            load(path)
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not text in UTF-8"):
        load(path)
