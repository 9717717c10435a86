"""What is wrong with a configuration is told in one line, which names the field."""

import pytest

from srl_train.config.yaml_file import load
from srl_train.errors import ConfigError

# What is written, and what the error says.
WRONG = [
    ("rollot: {}", "rollot: unknown: did you mean 'rollout'"),
    (
        "algorithm: {learning_rat: 1}",
        "algorithm.learning_rat: unknown where name is 'grpo': did you",
    ),
    (
        "updates: {stratgy: federated}",
        "updates.stratgy: unknown where strategy is 'asynchronous': did",
    ),
    ("models: {sampling: {temprature: 1}}", "models.sampling.temprature: unknown: did you mean"),
    ("models: {adapters: {rnak: 4}}", "models.adapters.rnak: unknown: did you mean 'rank'"),
    ("xyz: 1", "xyz: unknown: known: environment, models"),
    ("1: 2", "1: unknown: known:"),
    ('"a\\e[2J": 1', "a\\x1b[2J: unknown"),
    ("rounds: 0", "rounds: got 0: give 1 or more, or a section sft or dpo"),
    ("rounds: 104730", "rounds: got 104730: give 104729 or less"),
    ("rounds: 2.5", "rounds: got 2.5: give a whole number"),
    ("rounds: true", "rounds: got True: give a whole number"),
    ("rounds: many", "rounds: got 'many': give a whole number"),
    ("rounds: '5'", "rounds: got '5': give a whole number"),
    ("rounds:", "rounds: got None: give a whole number"),
    ("threads: 0", "threads: got 0"),
    ("threads: 100000", "threads: got 100000: give 1024 or less"),
    ("models: {count: 1000000000000}", "models.count: got 1000000000000: give 1024 or less"),
    ("models: {adapters: {rank: 100000}}", "models.adapters.rank: got 100000"),
    (
        "models: {sampling: {max_new_tokens: 2000000}}",
        "models.sampling.max_new_tokens: got 2000000",
    ),
    ("rollout: {group_size: 1000000000000}", "rollout.group_size: got 1000000000000"),
    (
        "rollout: {group_size: 1000, groups_per_round: 1000}",
        "rollout.groups_per_round: got 1000 groups of 1000 episodes: give 100 or less",
    ),
    ("logging: {evaluation_episodes: 1000000}", "logging.evaluation_episodes: got 1000000"),
    ("algorithm: {num_iterations: 1000000}", "algorithm.num_iterations: got 1000000"),
    ("sft: {episodes: 1000000}", "sft.episodes: got 1000000"),
    ("seed: -1", "seed: got -1: give 0 or more"),
    ("seed: 10000000000000000000000", "seed: got 10000000000000000000000"),
    ("max_failed_fraction: 1.5", "max_failed_fraction: got 1.5: give 1 or less"),
    ("algorithm: {learning_rate: 0}", "algorithm.learning_rate: got 0: give more than 0"),
    ("algorithm: {learning_rate: fast}", "algorithm.learning_rate: got 'fast': give a number"),
    ("algorithm: {learning_rate: '1e-3'}", "algorithm.learning_rate: got '1e-3': give a number"),
    ("algorithm: {learning_rate: .nan}", "algorithm.learning_rate: got nan: give a finite number"),
    ("algorithm: {learning_rate: .inf}", "algorithm.learning_rate: got inf: give a finite number"),
    ("algorithm: {learning_rate: true}", "algorithm.learning_rate: got True: give a number"),
    ("algorithm: {learning_rate: [1]}", "algorithm.learning_rate: got [1]: give a number"),
    (f"algorithm: {{learning_rate: 1{'0' * 400}}}", "algorithm.learning_rate: got 1"),
    ("rollout: {group_size: 1}", "rollout.group_size: got 1: give 2 or more"),
    ("rollout: {groups_per_round: 0}", "rollout.groups_per_round: got 0"),
    ("rollout: {discount: 1.1}", "rollout.discount: got 1.1: give 1 or less"),
    ("rollout: [{}]", "rollout: got [{}]: give a section, which is a mapping"),
    ("algorithm: {num_iterations: 0}", "algorithm.num_iterations: got 0"),
    ("algorithm: {minibatches: 0}", "algorithm.minibatches: got 0"),
    (
        "algorithm: {minibatches: 3}",
        "algorithm.minibatches: got 3: give a divisor of rollout.group",
    ),
    (
        "algorithm: {minibatches: 2, gradient_accumulation_steps: 3}",
        "algorithm.minibatches x gradient_accumulation_steps: got 6: give a divisor",
    ),
    ("algorithm: {clip_range: 0}", "algorithm.clip_range: got 0"),
    ("algorithm: {beta: -0.1}", "algorithm.beta: got -0.1"),
    (
        "algorithm: {reference: moving}",
        "algorithm.reference: got 'moving', which is read only where beta is above 0",
    ),
    (
        "algorithm: {reference: base, name: ppo}",
        "algorithm.reference: got 'base', which is read only where",
    ),
    (
        "algorithm: {beta: 0.1, reference_every: 5}",
        "algorithm.reference_every: got 5, which is read only where reference is 'moving'",
    ),
    ("algorithm: {weight_decay: -1}", "algorithm.weight_decay: got -1"),
    ("algorithm: {max_grad_norm: 0}", "algorithm.max_grad_norm: got 0"),
    ("algorithm: {warmup_steps: -1, schedule: linear}", "algorithm.warmup_steps: got -1"),
    ("algorithm: {warmup_steps: 3}", "algorithm.warmup_steps: got 3, which is read only"),
    ("algorithm: {schedule: square}", "algorithm.schedule: got 'square': give one of 'constant',"),
    ("algorithm: {loss: mse}", "algorithm.loss: got 'mse': give one of 'dapo', 'grpo'"),
    ("algorithm: {scale_rewards: always}", "algorithm.scale_rewards: got 'always'"),
    (
        "algorithm: {loss: sapo, clip_range: 0.3}",
        "algorithm.clip_range: got 0.3, which is read only where the loss clips a ratio",
    ),
    ("algorithm: grpo", "algorithm: got 'grpo': give a section, which is a mapping"),
    ("algorithm: {name: a2c}", "algorithm.name: got 'a2c': give one of 'grpo', 'ppo'"),
    ("algorithms: {model_0: {name: a2c}}", "algorithms.model_0.name: got 'a2c': give one of"),
    ("algorithms: {model_9: {name: ppo}}", "algorithms: got 'model_9': the models are"),
    (
        "algorithms: {model_1: {minibatches: 3}}",
        "algorithms.model_1.minibatches: got 3: give a div",
    ),
    (
        "{models: {count: 1}, algorithm: {name: ppo}, algorithms: {model_0: {}}}",
        "algorithm: every model has its own in algorithms",
    ),
    (
        "algorithm: {gae_lambda: 0.9}",
        "algorithm.gae_lambda: unknown where name is 'grpo': it is read",
    ),
    (
        "algorithm: {name: ppo, scale_rewards: none}",
        "scale_rewards: unknown where name is 'ppo': it",
    ),
    ("algorithm: {name: ppo, gae_lambda: 2}", "algorithm.gae_lambda: got 2: give 1 or less"),
    ("algorithm: {name: ppo, critic: both}", "algorithm.critic: got 'both': give one of 'shared',"),
    ("algorithm: {name: ppo, level: word}", "algorithm.level: got 'word': give one of 'turn' or"),
    ("algorithm: {name: ppo, critic: central, level: token}", "algorithm.level: got 'token' where"),
    ("algorithm: {name: ppo, value_clip: 0}", "algorithm.value_clip: got 0: give more than 0"),
    ("algorithm: {name: ppo, value_learning_rate: -1}", "algorithm.value_learning_rate: got -1"),
    ("algorithm: {name: ppo, value_coefficient: -1}", "algorithm.value_coefficient: got -1"),
    ("algorithm: {name: ppo, entropy_coef: -1}", "algorithm.entropy_coef: got -1"),
    ("algorithm: {name: ppo, target_kl: 0}", "algorithm.target_kl: got 0: give more than 0"),
    ("algorithm: {name: ppo, minibatches: 3}", "algorithm.minibatches: got 3: give a divisor of"),
    (
        "{preset: mappo, updates: {strategy: synchronized}}",
        "algorithm.value_normalisation: got 'running' where updates.strategy is 'synchronized'",
    ),
    (
        "{models: {count: 3}, algorithm: {name: ppo, value_normalisation: running}, "
        "updates: {strategy: federated, groups: [[model_0], [model_1, model_2]]}}",
        "'federated': values of model_1's critic are in deviations of its own returns",
    ),
    ("{algorithm: {name: ppo}, credit: {name: role}}", "credit.name: got 'role', and PPO's critic"),
    ("mode: {name: [mixed]}", "mode.name: got \"['mixed']\": give one of 'cooperative'"),
    ("mode: {name: Mixed}", "mode.name: got 'Mixed': give one of 'cooperative'"),
    ("mode: {cooperation_strength: 1.2}", "mode.cooperation_strength: got 1.2"),
    ("mode: {competition_intensity: -1}", "mode.competition_intensity: got -1"),
    (
        "mode: {name: cooperative, competition_intensity: 3}",
        "mode.competition_intensity: unknown where name is 'cooperative': it is read where name is "
        "'competitive' or 'mixed'",
    ),
    ("mode: {name: hierarchical, competition_intensity: 3}", "mode.competition_intensity: unknown"),
    ("mode: {name: competitive, cooperation_strength: 1}", "mode.cooperation_strength: unknown"),
    ("mode: {leader: agent_0}", "mode.leader: unknown where name is 'mixed': it is read where"),
    ("models: {count: 0}", "models.count: got 0"),
    ("models: {count: 3, base: [a, b]}", "models.base: got a list of 2 models where count is 3"),
    ("models: {base: 3}", "models.base: got 3: give text or a list"),
    ("models: {base: [a, 3, c, d]}", "models.base[1]: got 3: give text"),
    ("models: {adapters: {rank: 0}}", "models.adapters.rank: got 0"),
    ("models: {adapters: {alpha: 0}}", "models.adapters.alpha: got 0"),
    ("models: {adapters: {dropout: 1}}", "models.adapters.dropout: got 1"),
    ("models: {dtype: int8}", "models.dtype: got 'int8'"),
    ("models: {quantization: int4}", "models.quantization: got 'int4'"),
    (
        "models: {quantization: nf4}",
        "models.quantization: got 'nf4', and quantised weights cannot be",
    ),
    ("models: {constrained: maybe}", "models.constrained: got 'maybe': give true or false"),
    ("models: {constrained: 1}", "models.constrained: got 1: give true or false"),
    ("models: {opponent_notes: 3}", "models.opponent_notes: got 3: give true or false"),
    ("models: {sampling: {top_p: 0}}", "models.sampling.top_p: got 0"),
    ("models: {sampling: {max_new_tokens: 0}}", "models.sampling.max_new_tokens: got 0"),
    ("models: {agent_sampling: {a: {temperature: -1}}}", "agent_sampling.a.temperature: got -1"),
    ("models: {agent_sampling: [1]}", "models.agent_sampling: got [1]: give a mapping"),
    ("models: {agent_sampling: {a: 1}}", "models.agent_sampling.a: got 1: give a section"),
    ("models: {agent_sampling: {a: {}}, sampling: {top: 1}}", "models.sampling.top: unknown"),
    ("seats: {agent_0: 3}", "seats.agent_0: got 3: give text"),
    ("seats: agent_0", "seats: got 'agent_0': give a mapping"),
    ("environment: {name: 7}", "environment.name: got 7: give text"),
    ("environment: {options: 7}", "environment.options: got 7: give a mapping"),
    ("environment:", "environment: got None: give a section, which is a mapping"),
    ("updates: {strategy: sync}", "updates.strategy: got 'sync': give one of 'asynchronous'"),
    (
        "updates: {mix: 0.5}",
        "updates.mix: unknown where strategy is 'asynchronous': it is read where",
    ),
    ("updates: {strategy: federated, mix: 2}", "updates.mix: got 2: give 1 or less"),
    ("updates: {strategy: federated, period: 0}", "updates.period: got 0: give 1 or more"),
    (
        "{rounds: 5, updates: {strategy: federated, period: 6}}",
        "updates.period: got 6 where rounds is 5: the models would never be averaged; give 5 or",
    ),
    ("updates: {strategy: federated, proximal: -1}", "updates.proximal: got -1: give 0 or more"),
    (
        "updates: {strategy: federated, server: {name: fedavg}}",
        "updates.server.name: got 'fedavg': give one of 'average', 'fedavgm', 'diloco', 'fedadam'",
    ),
    (
        "updates: {strategy: federated, server: {momentum: 0.9}}",
        "updates.server.momentum: unknown where name is 'average': it is read where name is 'fed",
    ),
    (
        "updates: {strategy: federated, weighting: scores, temperature: 0}",
        "updates.temperature: got 0: give more than 0",
    ),
    (
        "updates: {strategy: federated, temperature: 2}",
        "updates.temperature: got 2.0, which is read only where weighting is 'scores'",
    ),
    ("updates: {strategy: selective, fraction: 2}", "updates.fraction: got 2"),
    ("updates: {strategy: selective, patience: 0}", "updates.patience: got 0"),
    ("updates: {max_staleness: -1}", "updates.max_staleness: got -1"),
    ("updates: {sample_budget: {model_9: 8}}", "updates.sample_budget: got 'model_9'"),
    ("updates: {sample_budget: {model_0: 12}}", "updates.sample_budget.model_0: got 12"),
    ("updates: {sample_budget: {model_0: 0}}", "updates.sample_budget.model_0: got 0"),
    ("updates: {groups: all, strategy: federated}", "updates.groups: got 'all': give a list"),
    (
        "updates: {groups: [[]], strategy: federated}",
        "updates.groups[0]: got []: give one or more",
    ),
    ("updates: {groups: [[model_7]], strategy: federated}", "updates.groups: got 'model_7'"),
    ("sft: {epoch: 1}", "sft.epoch: unknown: did you mean 'epochs'"),
    ("sft: {epochs: 0}", "sft.epochs: got 0: give 1 or more"),
    ("sft: {batch_size: 0}", "sft.batch_size: got 0"),
    ("sft: {episodes: 0}", "sft.episodes: got 0"),
    (
        "backend: {kept_tokens: 5, batched: false}",
        "backend.kept_tokens: got 5, which is read only where batched is true",
    ),
    (
        "engine: {name: ray, learner_processes: 2, learner_gpus: 0.5}",
        "engine.learner_gpus: got 0.5 where learner_processes is 2",
    ),
    ("sft: {learning_rate: 0}", "sft.learning_rate: got 0"),
    ("sft: {warmup_steps: 2}", "sft.warmup_steps: got 2, which is read only"),
    ("sft: {schedule: cosine_with_min_lr}", "sft.schedule: got 'cosine_with_min_lr', which needs"),
    ("sft: {seats: mine}", "sft.seats: got 'mine': give one of 'own' or 'all'"),
    ("sft: {data: demos.jsonl}", "sft.data: got 'demos.jsonl': give a list"),
    (
        "sft: {data: [a], data_policy: uniform}",
        "sft.data_policy: got 'uniform', which is read only where games are played",
    ),
    ("sft: {data: [a], episodes: 3}", "sft.episodes: got 3, which is read only where"),
    ("sft: {answer_weight: -1}", "sft.answer_weight: got -1"),
    ("sft: {answer_weight: 0}", "sft.answer_weight: got 0 where observation_weight is 0"),
    ("sft: {top_fraction: 0}", "sft.top_fraction: got 0"),
    ("sft: {top_fraction: 2}", "sft.top_fraction: got 2"),
    ("sft: 3", "sft: got 3: give a section, which is a mapping"),
    ("dpo: {beta: 0}", "dpo.beta: got 0"),
    ("dpo: {min_return_gap: -1}", "dpo.min_return_gap: got -1"),
    ("dpo: {loss: ppo}", "dpo.loss: got 'ppo': give one of 'sigmoid', 'hinge', 'ipo'"),
    (
        "dpo: {label_smoothing: 0.1}",
        "dpo.label_smoothing: got 0.1, which is read only where loss is one of robust, exo_pair",
    ),
    ("dpo: {label_smoothing: 0.7, loss: robust}", "dpo.label_smoothing: got 0.7: give 0.5 or less"),
    ("dpo: {loss: exo_pair}", "dpo.label_smoothing: got 0: exo_pair needs more than 0"),
    ("dpo: {episodes: 12}", "dpo.episodes: got 12: give a multiple of rollout.group_size (8)"),
    (
        "{dpo: {}, models: {adapters: {}}, algorithm: {beta: 0.1}}",
        "dpo: it and a beta above 0 both keep a reference adapter",
    ),
    (
        "{opponent_pools: {a.b: {}}, seats: {agent_0: a.b}}",
        "opponent_pools.a.b: got 'a.b': give a name of at most 64 letters (A to Z, a to z), digits",
    ),
    ("{opponent_pools: {'../x': {}}, seats: {agent_0: '../x'}}", "opponent_pools.../x: got '../x'"),
    ("{opponent_pools: {'a:b': {}}, seats: {agent_0: 'a:b'}}", "opponent_pools.a:b: got 'a:b'"),
    ("{opponent_pools: {'': {}}, seats: {agent_0: ''}}", "opponent_pools.: got '': give a name"),
    ("{opponent_pools: {7up: {}}, seats: {agent_0: 7up}}", "opponent_pools.7up: got '7up'"),
    ('opponent_pools: {"a\\n": {}}', "got 'a\\n': give a name"),
    (f"opponent_pools: {{{'p' * 65}: {{}}}}", "ppp': give a name of at most 64 letters"),
    ("models: {frozen_models: {a.b: tiny}}", "models.frozen_models.a.b: got 'a.b': give a name"),
    (
        "{opponent_pools: {uniform: {}}, seats: {agent_0: uniform}}",
        "opponent_pools.uniform: another player is called that: rename it",
    ),
    (
        "{models: {frozen_models: {uniform: tiny}}, seats: {agent_0: uniform}}",
        "models.frozen_models.uniform: another player is called that: rename it",
    ),
    (
        "{opponent_pools: {model_9: {}}, seats: {agent_0: model_9}}",
        "opponent_pools.model_9: models that learn are called model_0, model_1, ...: rename it",
    ),
    (
        "{opponent_pools: {past: {of: [model_0, model_0]}}, seats: {agent_0: past}}",
        "opponent_pools.past.of: got ['model_0', 'model_0']: give each model once",
    ),
    (
        "{opponent_pools: {past: {}}, seats: {agent_0: pasta}}",
        "seats.agent_0: got 'pasta': did you mean 'past'?",
    ),
    ("{sft: {}, rounds: -1}", "rounds: got -1: give 0 or more"),
    ("checkpoints: {every: -1}", "checkpoints.every: got -1"),
    ("checkpoints: {keep: 0}", "checkpoints.keep: got 0: give 1 or more, or -1 for all"),
    ("checkpoints: {keep: -2}", "checkpoints.keep: got -2"),
    ("logging: {every: 0}", "logging.every: got 0"),
    ("logging: {episodes_every: 0}", "logging.episodes_every: got 0"),
    ("logging: {episodes: -1}", "logging.episodes: got -1"),
    ("logging: {evaluation_episodes: -1}", "logging.evaluation_episodes: got -1"),
    ("[1, 2]", "a configuration is a mapping of sections, got list"),
    ("just text", "a configuration is a mapping of sections, got str"),
    ("[]", "a configuration is a mapping of sections, got list"),
    ("0", "a configuration is a mapping of sections, got int"),
    ("false", "a configuration is a mapping of sections, got bool"),
    ("sft: {beta: 0.1}\nseed: 1\nsft: {beta: 0.1}", "run.yaml: line 3: 'sft' is in this mapping"),
    ("sft: {epochs: 1, 'epochs': 2}", "line 1: 'epochs' is in this mapping already, in line 1"),
    ("yes: 1\ntrue: 2", "line 2: 'true' is in this mapping already, in line 1"),
    ("a: [", ": not YAML"),
    ("rounds: 2026-13-01", ": not YAML"),
]


@pytest.mark.parametrize("text, says", WRONG)
def test_a_wrong_configuration_is_refused_in_one_line(text, says, tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        load(path)
    assert says in str(error.value)
    assert "\n" not in str(error.value)
    section, *below = str(error.value).partition(":")[0].split(".")
    assert [section] != below[:1]  # a path is told once


def test_what_is_no_text_file_is_refused(tmp_path):
    with pytest.raises(
        ConfigError, match=r"cannot read the configuration .*nowhere\.yaml: No such"
    ):
        load(tmp_path / "nowhere.yaml")
    with pytest.raises(ConfigError, match="cannot read"):
        load(tmp_path)
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not text in UTF-8"):
        load(path)
