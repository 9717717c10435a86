"""Configurations: what is wrong is refused in one line that names the field, the rest is read."""

import dataclasses
import typing
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.llm.sampling import Sampling
from srl_train.config import run as config_module
from srl_train.config import yaml_file
from srl_train.config.learners import GrpoConfig
from srl_train.config.models import AdapterConfig, ModelsConfig
from srl_train.config.run import ModeConfig, RolloutConfig, RunConfig, UpdatesConfig
from srl_train.config.yaml_file import dump, from_tree, load, to_tree
from srl_train.errors import ConfigError
from srl_train.updates import STRATEGIES

ROOT = Path(config_module.__file__).parents[2]

# What is written, and what the error says.
WRONG = [
    ("grop: {}", "unknown key 'grop': did you mean 'grpo'"),
    ("grpo: {learning_rat: 1}", "unknown key 'grpo.learning_rat': did you mean 'learning_rate'"),
    ("updates: {stratgy: federated}", "unknown key 'updates.stratgy': did you mean 'strategy'"),
    ("models: {sampling: {temprature: 1}}", "'models.sampling.temprature': did you mean"),
    ("models: {adapters: {rnak: 4}}", "unknown key 'models.adapters.rnak': did you mean 'rank'"),
    ("xyz: 1", "unknown key 'xyz': known: environment, models"),
    ("1: 2", "unknown key '1': known:"),
    ("rounds: 0", "rounds is 0: give 1 to 104729"),
    ("rounds: 104730", "rounds is 104730: give 1 to 104729"),
    ("rounds: 2.5", "rounds is 2.5: give a whole number"),
    ("rounds: true", "rounds is True: give a whole number"),
    ("rounds: many", "rounds is 'many': give a whole number"),
    ("rounds:", "rounds is None: give a whole number"),
    ("threads: 0", "threads is 0"),
    ("seed: -1", "seed is -1: give 0 to 4294967295"),
    ("seed: 10000000000000000000000", "seed is 10000000000000000000000"),
    ("max_failed_share: 1.5", "max_failed_share is 1.5: give 0 to 1"),
    ("grpo: {learning_rate: 0}", "grpo.learning_rate is 0.0: give more than 0"),
    ("grpo: {learning_rate: fast}", "grpo.learning_rate is 'fast': give a number"),
    ("grpo: {learning_rate: .nan}", "grpo.learning_rate is nan: give a finite number"),
    ("grpo: {learning_rate: .inf}", "grpo.learning_rate is inf: give a finite number"),
    ("grpo: {learning_rate: true}", "grpo.learning_rate is True: give a number"),
    ("grpo: {learning_rate: [1]}", "grpo.learning_rate is [1]: give a number"),
    (f"grpo: {{learning_rate: 1{'0' * 400}}}", "grpo.learning_rate is 1"),
    ("rollout: {group_size: 1}", "rollout.group_size is 1: give 2 or more"),
    ("rollout: {groups_per_round: 0}", "rollout.groups_per_round is 0"),
    ("grpo: {iterations: 0}", "grpo.iterations is 0"),
    ("grpo: {minibatches: 0}", "grpo.minibatches is 0"),
    ("grpo: {minibatches: 3}", "grpo.minibatches is 3: give a divisor of rollout.group_size (8)"),
    ("grpo: {accumulation: 0}", "grpo.accumulation is 0"),
    ("grpo: {minibatches: 2, accumulation: 3}", "grpo.minibatches x accumulation is 6: give a"),
    ("grpo: {clip: 0}", "grpo.clip is 0"),
    ("grpo: {beta: -0.1}", "grpo.beta is -0.1"),
    ("rollout: {discount: 1.1}", "rollout.discount is 1.1: give 0 to 1"),
    ("grpo: {weight_decay: -1}", "grpo.weight_decay is -1"),
    ("grpo: {max_grad_norm: 0}", "grpo.max_grad_norm is 0"),
    ("grpo: {warmup_steps: -1, schedule: linear}", "grpo.warmup_steps is -1"),
    ("grpo: {warmup_steps: 3}", "grpo.warmup_steps is read by every schedule but 'constant'"),
    ("grpo: {schedule: square}", "grpo.schedule is 'square': give one of constant, linear, cosine"),
    ("grpo: {loss: mse}", "grpo.loss is 'mse': give one of dapo, grpo"),
    ("grpo: {scale_rewards: always}", "grpo.scale_rewards is 'always'"),
    ("grpo: 3", "grpo is a section, got 3"),
    ("algorithm: a2c", "algorithm is 'a2c': give one of grpo, ppo"),
    ("algorithms: {model_0: a2c}", "algorithms.model_0 is 'a2c': give one of grpo, ppo"),
    ("algorithms: {model_9: ppo}", "algorithms names 'model_9': the models are"),
    ("ppo: {gae_lambda: 0.9}", "ppo.gae_lambda is set, but no model learns by ppo: set algorithm"),
    (
        "{algorithm: ppo, grpo: {scale_rewards: none}}",
        "grpo.scale_rewards is set, but no model learns by grpo: set algorithm or algorithms, or "
        "empty the section (--set grpo={})",
    ),
    ("{algorithm: ppo, ppo: {gae_lambda: 2}}", "ppo.gae_lambda is 2.0: give 0 to 1"),
    ("{algorithm: ppo, ppo: {critic: both}}", "ppo.critic is 'both': give one of shared, separate"),
    ("{algorithm: ppo, ppo: {level: word}}", "ppo.level is 'word': give one of turn, token"),
    ("{algorithm: ppo, ppo: {critic: central, level: token}}", "ppo.level is 'token', ppo.critic"),
    ("{algorithm: ppo, ppo: {value_clip: 0}}", "ppo.value_clip is 0.0: give more than 0"),
    ("{algorithm: ppo, ppo: {value_learning_rate: -1}}", "ppo.value_learning_rate is -1.0"),
    ("{algorithm: ppo, ppo: {value_coefficient: -1}}", "ppo.value_coefficient is -1.0"),
    ("{algorithm: ppo, ppo: {critic_warmup: -1}}", "ppo.critic_warmup is -1"),
    ("{algorithm: ppo, ppo: {entropy_coef: -1}}", "ppo.entropy_coef is -1.0"),
    ("{algorithm: ppo, ppo: {target_kl: 0}}", "ppo.target_kl is 0.0: give more than 0"),
    ("{algorithm: ppo, ppo: {minibatches: 3}}", "ppo.minibatches is 3: give a divisor of"),
    ("{algorithm: ppo, credit: {name: role}}", "credit.name is 'role', and PPO's critic assigns"),
    ("{algorithm: ppo, trl: {entropy_coef: 1}}", "trl.entropy_coef is set by ppo.entropy_coef"),
    ("mode: {name: [mixed]}", "mode.name is ['mixed']: give one of cooperative"),
    ("mode: {name: Mixed}", "mode.name is 'Mixed': give one of cooperative"),
    ("mode: {cooperation_strength: 1.2}", "mode.cooperation_strength is 1.2"),
    ("mode: {competition_intensity: -1}", "mode.competition_intensity is -1"),
    (
        "mode: {name: cooperative, competition_intensity: 3}",
        "mode.competition_intensity is read by competitive and mixed only, mode.name is 'coop",
    ),
    ("mode: {name: hierarchical, competition_intensity: 3}", "mode.competition_intensity is read"),
    ("mode: {name: competitive, cooperation_strength: 1}", "mode.cooperation_strength is read by"),
    ("mode: {leader: agent_0}", "mode.leader is read by hierarchical only, mode.name is 'mixed'"),
    ("models: {count: 0}", "models.count is 0"),
    ("models: {count: 3, base: [a, b]}", "models.base lists 2 models, models.count is 3"),
    ("models: {base: 3}", "models.base is 3: give text or a list"),
    ("models: {base: [a, 3, c, d]}", "models.base[1] is 3: give text"),
    ("models: {adapters: {rank: 0}}", "models.adapters.rank is 0"),
    ("models: {adapters: {alpha: 0}}", "models.adapters.alpha is 0"),
    ("models: {adapters: {dropout: 1}}", "models.adapters.dropout is 1"),
    ("models: {dtype: int8}", "models.dtype is 'int8'"),
    ("models: {quantization: int4}", "models.quantization is 'int4'"),
    ("models: {quantization: nf4}", "quantised weights cannot be trained"),
    ("grpo: {loss: sapo, clip: 0.3}", "grpo.clip is 0.3, and the loss sapo clips no ratio"),
    ("sft: {schedule: cosine_with_min_lr}", "which needs trl.lr_scheduler_kwargs"),
    ("models: {constrained: maybe}", "models.constrained is 'maybe': give true or false"),
    ("models: {constrained: 1}", "models.constrained is 1: give true or false"),
    ("models: {sampling: {top_p: 0}}", "models.sampling: top_p is 0"),
    ("models: {sampling: {max_new_tokens: 0}}", "models.sampling: max_new_tokens is 0"),
    (
        "models: {seat_sampling: {a: {temperature: -1}}}",
        "models.seat_sampling.a: temperature is -1",
    ),
    ("models: {seat_sampling: [1]}", "models.seat_sampling is [1]: give a mapping"),
    ("models: {seat_sampling: {a: 1}}", "models.seat_sampling.a is a section, got 1"),
    ("models: {seat_sampling: {a: {}}, sampling: {top: 1}}", "unknown key 'models.sampling.top'"),
    ("threads: 100000", "threads is 100000: give 1 to 1024"),
    ("seats: {agent_0: 3}", "seats.agent_0 is 3: give text"),
    ("seats: agent_0", "seats is 'agent_0': give a mapping"),
    ("environment: {name: 7}", "environment.name is 7: give text"),
    ("environment: {options: 7}", "environment.options is 7: give a mapping"),
    ("environment:", "environment is a section, got None"),
    ("updates: {strategy: sync}", "updates.strategy is 'sync': give one of synchronized"),
    ("updates: {federation_mix: 0.5}", "updates.federation_mix is read by federated only"),
    ("updates: {strategy: federated, federation_mix: 2}", "updates.federation_mix is 2"),
    ("updates: {strategy: federated, federation_temperature: 0}", "federation_temperature is 0"),
    (
        "updates: {strategy: federated, federation_temperature: 2}",
        "updates.federation_temperature is read by scores only",
    ),
    ("updates: {strategy: selective, selected_fraction: 2}", "updates.selected_fraction is 2"),
    ("updates: {strategy: selective, patience: 0}", "updates.patience is 0"),
    ("updates: {max_staleness: -1}", "updates.max_staleness is -1"),
    ("updates: {sample_budget: {model_9: 8}}", "updates.sample_budget names 'model_9'"),
    ("updates: {sample_budget: {model_0: 12}}", "updates.sample_budget.model_0 is 12"),
    ("updates: {sample_budget: {model_0: 0}}", "updates.sample_budget.model_0 is 0"),
    ("updates: {groups: all, strategy: federated}", "updates.groups is 'all': give a list"),
    ("updates: {groups: [[]], strategy: federated}", "updates.groups has an empty group: name"),
    ("updates: {groups: [[model_7]], strategy: federated}", "updates.groups names 'model_7'"),
    ("models: {partner_notes: 3}", "models.partner_notes is 3: give true or false"),
    ("sft: {epoch: 1}", "unknown key 'sft.epoch': did you mean 'epochs'"),
    ("sft: {epochs: 0}", "sft.epochs is 0: give 1 or more"),
    ("sft: {batch_size: 0}", "sft.batch_size is 0"),
    ("sft: {episodes: 0}", "sft.episodes is 0"),
    ("sft: {learning_rate: 0}", "sft.learning_rate is 0.0"),
    ("sft: {warmup_steps: 2}", "sft.warmup_steps is read by every schedule but 'constant'"),
    ("sft: {seats: mine}", "sft.seats is 'mine': give one of own, all"),
    ("sft: {data: demos.jsonl}", "sft.data is 'demos.jsonl': give a list"),
    ("sft: {data: [a], players: uniform}", "sft.players is read where no data is given"),
    ("sft: {data: [a], episodes: 3}", "sft.episodes is read where no data is given"),
    ("sft: {answer_weight: -1}", "sft.answer_weight is -1"),
    ("sft: {answer_weight: 0}", "sft.answer_weight and sft.observation_weight are both 0"),
    ("sft: {top_share: 0}", "sft.top_share is 0"),
    ("sft: {top_share: 2}", "sft.top_share is 2"),
    ("sft: 3", "sft is a section, got 3"),
    ("dpo: {beta: 0}", "dpo.beta is 0"),
    ("dpo: {margin: -1}", "dpo.margin is -1"),
    ("dpo: {loss: ppo}", "dpo.loss is 'ppo': give one of sigmoid, hinge, ipo"),
    ("dpo: {label_smoothing: 0.1}", "dpo.label_smoothing is read by robust, exo_pair"),
    ("dpo: {label_smoothing: 0.7, loss: robust}", "dpo.label_smoothing is 0.7: give 0 to 0.5"),
    ("dpo: {loss: exo_pair}", "dpo.label_smoothing is 0: exo_pair needs more than 0"),
    ("dpo: {episodes: 12}", "dpo.episodes is 12: give a multiple of rollout.group_size (8)"),
    (
        "{dpo: {}, models: {adapters: {}}, grpo: {beta: 0.1}}",
        "dpo and a beta above 0 both keep a reference adapter",
    ),
    ("{sft: {}, rounds: -1}", "rounds is -1: give 0 to 104729"),
    ("checkpoints: {every: -1}", "checkpoints.every is -1"),
    ("checkpoints: {keep: 0}", "checkpoints.keep is 0: give 1 or more, or -1 for all"),
    ("checkpoints: {keep: -2}", "checkpoints.keep is -2"),
    ("logging: {every: 0}", "logging.every is 0"),
    ("logging: {episodes_every: 0}", "logging.episodes_every is 0"),
    ("logging: {episodes: -1}", "logging.episodes is -1"),
    ("logging: {evaluation_episodes: -1}", "logging.evaluation_episodes is -1"),
    ("[1, 2]", "a configuration is a mapping of sections, got list"),
    ("just text", "a configuration is a mapping of sections, got str"),
    ("[]", "a configuration is a mapping of sections, got list"),
    ("0", "a configuration is a mapping of sections, got int"),
    ("false", "a configuration is a mapping of sections, got bool"),
    ("grpo: {clip: 0.1}\nseed: 1\ngrpo: {beta: 0.1}", "run.yaml: line 3: 'grpo' stands there"),
    ("grpo: {clip: 0.1, 'clip': 0.2}", "line 1: 'clip' stands there already, in line 1"),
    ("yes: 1\ntrue: 2", "line 2: 'true' stands there already, in line 1"),
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


keys = st.sampled_from(
    [f.name for f in dataclasses.fields(RunConfig)]
    + [f.name for f in dataclasses.fields(GrpoConfig)]
    + [f.name for f in dataclasses.fields(RolloutConfig)]
    + [f.name for f in dataclasses.fields(UpdatesConfig)]
    + [f.name for f in dataclasses.fields(ModelsConfig)]
) | st.text(max_size=3)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(keys, plain, max_size=4))
def test_any_tree_is_a_configuration_or_an_error_of_one_line(tree):
    try:
        config = from_tree(tree)
    except ConfigError as error:
        assert "\n" not in str(error)
    else:
        assert from_tree(to_tree(config)) == config


FULL = RunConfig(
    models=ModelsConfig(
        count=2,
        base=("a", "a"),
        adapters=AdapterConfig(rank=4, target_modules=("q_proj", "v_proj")),
        sampling=Sampling(temperature=0.7, top_k=5),
        seat_sampling={"agent_1": Sampling(temperature=0.7)},
        constrained=True,
    ),
    seats={"agent_3": "tit_for_tat"},
    mode=ModeConfig(name="hierarchical", leader="agent_1"),
    updates=UpdatesConfig(strategy="federated", groups=(("model_0", "model_1"),)),
    grpo=GrpoConfig(learning_rate=1e-5, schedule="linear", warmup_steps=2),
    seed=2**31,
)


@pytest.mark.parametrize("first", ["sampling", "seat_sampling"])
def test_what_a_seat_leaves_out_is_as_in_the_models_own_sampling(first):
    seats = {"agent_0": {"temperature": 0.5}, "agent_1": {"top_k": 3, "max_new_tokens": 8}}
    tree = {"sampling": {"top_p": 0.9}, "seat_sampling": seats}
    models = from_tree({"models": dict(sorted(tree.items(), key=lambda e: e[0] != first))}).models
    assert models.seat_sampling == {
        "agent_0": Sampling(0.5, top_p=0.9, max_new_tokens=4),
        "agent_1": Sampling(1.0, top_p=0.9, top_k=3, max_new_tokens=8),
    }
    alone = from_tree({}, {"models.seat_sampling.agent_0.temperature": 0.5}).models
    assert alone.seat_sampling["agent_0"].max_new_tokens == alone.sampling.max_new_tokens == 4


@pytest.mark.parametrize("config", [RunConfig(), FULL], ids=["defaults", "full"])
def test_round_trip(config, tmp_path):
    tree = to_tree(config)
    assert from_tree(tree) == config
    path = tmp_path / "run.yaml"
    path.write_text(dump(config))
    assert load(path) == config
    assert yaml.safe_load(dump(config)) == tree  # plain data only


def test_an_empty_file_is_the_default_run(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("# nothing\n")
    assert load(path) == RunConfig()
    assert RunConfig().environment.options == {"max_cycles": 8}


def test_a_game_that_is_named_is_as_long_as_a_model_can_remember():
    for name, options in (
        ("coop_compete_v0", {"max_cycles": 8}), ("math_v0", {}), ("social_trading_v0", {}),
        ("my_games:game", {}),
    ):  # fmt: skip
        assert from_tree({}, {"environment.name": name}).environment.options == options
    asked = {"environment": {"name": "coop_compete_v0", "options": {"max_cycles": 1000}}}
    assert from_tree(asked).environment.options == {"max_cycles": 1000}
    mixed = {"a": {"name": "staged_v0"}, "b": {"name": "maze_v0", "options": {"width": 5}}}
    run = from_tree({"environment": {"name": "multitask_v0", "options": {"environments": mixed}}})
    assert run.environment.options["environments"] == {
        "a": {"name": "staged_v0", "options": {"max_cycles": 8}}, "b": mixed["b"],
    }  # fmt: skip
    run = from_tree({"environment": {"options": {"num_agents": 2}}})
    assert run.environment.options == {"max_cycles": 8, "num_agents": 2}


@pytest.mark.parametrize("written", ["3e-3", "3.0e-3", "0.003", "3E-3"])
def test_numbers_are_read_however_they_are_written(written, tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(f"grpo: {{learning_rate: {written}, clip: 1}}")
    config = load(path)
    assert config.grpo.learning_rate == 0.003
    assert type(config.grpo.clip) is float


def test_what_a_section_leaves_out_keeps_its_default():
    config = from_tree({"models": {"sampling": {"temperature": 0.5}}})
    assert config.models.sampling == dataclasses.replace(
        RunConfig().models.sampling, temperature=0.5
    )
    config = from_tree({"models": {"adapters": {"rank": 3}}})
    assert config.models.adapters == AdapterConfig(rank=3)
    assert from_tree({"models": {"adapters": None}}).models.adapters is None


def test_overrides_go_on_top():
    tree = {"rollout": {"group_size": 4}, "models": {"count": 2}}
    config = from_tree(
        tree,
        {
            "grpo.learning_rate": 1e-4,
            "models.sampling.temperature": 0.5,
            "seats.agent_1": "model_0",
            "rounds": 3,
        },
    )
    assert (config.rollout.group_size, config.grpo.learning_rate) == (4, 1e-4)
    assert config.models.sampling.temperature == 0.5
    assert config.seats == {"agent_1": "model_0"}
    assert config.rounds == 3
    assert tree == {"rollout": {"group_size": 4}, "models": {"count": 2}}, "the tree was changed"


@pytest.mark.parametrize(
    "overrides, says",
    [
        ({"grpo.lr": 1}, "unknown key 'grpo.lr'"),
        ({"rounds.x": 1}, "rounds.x: 'rounds' holds 3, not a section"),
        ({"": 1}, "unknown key ''"),
    ],
)
def test_wrong_overrides(overrides, says):
    with pytest.raises(ConfigError, match=says):
        from_tree({"rounds": 3}, overrides)


def test_the_names_in_the_types_are_those_of_the_tables():
    from srl_train.advantages.reward_modes import MODES

    def choices(kind, field):
        return set(typing.get_args(typing.get_type_hints(kind)[field]))

    assert choices(UpdatesConfig, "strategy") == set(STRATEGIES)
    assert choices(ModeConfig, "name") == set(MODES)


def test_configurations_are_frozen():
    assert isinstance(RunConfig().seats, Mapping)
    with pytest.raises(dataclasses.FrozenInstanceError):
        RunConfig().rounds = 3
    assert yaml_file.from_tree({}) == RunConfig()


def test_an_algorithm_set_by_name_leaves_the_files_other_section_aside(caplog):
    tree = {"grpo": {"scale_rewards": "none"}}
    assert from_tree(tree, {"algorithm": "ppo"}).algorithm == "ppo"
    assert "section grpo is left aside" in caplog.text
    with pytest.raises(ConfigError, match=r"grpo.clip is set, but no model learns by grpo"):
        from_tree(tree, {"algorithm": "ppo", "grpo.clip": 0.1})
