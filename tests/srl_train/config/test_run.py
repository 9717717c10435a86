"""Run configurations: defaults, overrides, round trips through YAML, and immutability."""

import ast
import dataclasses
import json
import pickle
import re
from pathlib import Path
from typing import get_args

import pytest
import yaml
from pydantic import ValidationError

from core_srl import LLMConfig, MultiModelConfig
from srl_agents.llm.sampling import Sampling
from srl_envs.loading import place
from srl_extensions.ppo.config import PpoConfig
from srl_train.config import run as run_module
from srl_train.config.learning.learners import GrpoConfig
from srl_train.config.learning.updates import FederatedConfig
from srl_train.config.models import AdapterConfig, ModelsConfig, SamplingConfig
from srl_train.config.run import RunConfig
from srl_train.config.section import Deferred, Section
from srl_train.config.stages import STAGES
from srl_train.config.yaml_file import dump, from_tree, load, to_tree
from srl_train.modes import HierarchicalConfig
from srl_train.player_names import Loading
from srl_train.trainer import Trainer

ROOT = Path(run_module.__file__).parents[2]

FULL = RunConfig(
    models=ModelsConfig(
        count=2,
        base=("a", "a"),
        adapters=AdapterConfig(rank=4, target_modules=("q_proj", "v_proj")),
        sampling=SamplingConfig(temperature=0.7, top_k=5),
        agent_sampling={"agent_1": SamplingConfig(temperature=0.7)},
        constrained=True,
    ),
    seats={"agent_3": "tit_for_tat"},
    mode=HierarchicalConfig(leader="agent_1"),
    updates=FederatedConfig(groups=(("model_0", "model_1"),), mix=0.5),
    algorithm=PpoConfig(learning_rate=1e-5, schedule="linear", warmup_steps=2),
    algorithms={"model_1": GrpoConfig(trl={"epsilon_high": 0.28})},
    seed=2**31,
)


@pytest.mark.parametrize("first", ["sampling", "agent_sampling"])
def test_agent_sampling_inherits_from_the_model(first):
    seats = {"agent_0": {"temperature": 0.5}, "agent_1": {"top_k": 3, "max_new_tokens": 8}}
    tree = {"sampling": {"top_p": 0.9}, "agent_sampling": seats}
    models = from_tree({"models": dict(sorted(tree.items(), key=lambda e: e[0] != first))}).models
    assert models.agent_sampling == {
        "agent_0": SamplingConfig(temperature=0.5, top_p=0.9, max_new_tokens=4),
        "agent_1": SamplingConfig(top_p=0.9, top_k=3, max_new_tokens=8),
    }
    assert models.per_agent["agent_1"] == Sampling(1.0, 0.9, 3, 8)
    assert "agent_2" not in models.per_agent
    alone = from_tree({}, {"models.agent_sampling.agent_0.temperature": 0.5}).models
    assert alone.agent_sampling["agent_0"].max_new_tokens == alone.sampling.max_new_tokens == 4


@pytest.mark.parametrize("config", [RunConfig(), FULL], ids=["defaults", "full"])
def test_round_trip(config, tmp_path):
    tree = to_tree(config)
    assert from_tree(tree) == config
    path = tmp_path / "run.yaml"
    path.write_text(dump(config))
    assert load(path) == config
    assert yaml.safe_load(dump(config)) == tree  # plain data only


def test_empty_file_is_the_default_configuration(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("# nothing\n")
    assert load(path) == RunConfig()
    assert RunConfig().environment.options == {"max_cycles": 8}


def test_default_episode_length_depends_on_the_environment():
    for name, options in (
        ("coop_compete_v0", {"max_cycles": 8}), ("math_v0", {}), ("social_trading_v0", {}),
        ("my_games:game", {}),
    ):  # fmt: skip
        assert from_tree({}, {"environment.name": name}).environment.options == options
    mixed = {"a": {"name": "staged_v0"}, "b": {"name": "maze_v0", "options": {"width": 5}}}
    run = from_tree({"environment": {"name": "multitask_v0", "options": {"environments": mixed}}})
    assert run.environment.options["environments"] == {
        "a": {"name": "staged_v0", "options": {"max_cycles": 8}}, "b": mixed["b"],
    }  # fmt: skip


def test_yaml_numbers_are_converted(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("algorithm: {learning_rate: 3e-3, clip_range: 1}")
    config = load(path)
    assert config.algorithm.learning_rate == 0.003
    assert type(config.algorithm.clip_range) is float


def test_overrides_replace_values():
    tree = {"rollout": {"group_size": 4}, "models": {"count": 2}}
    config = from_tree(
        tree,
        {
            "algorithm.learning_rate": 1e-4,
            "models.sampling.temperature": 0.5,
            "seats.agent_1": "model_0",
            "rounds": 3,
        },
    )
    assert (config.rollout.group_size, config.algorithm.learning_rate) == (4, 1e-4)
    assert config.models.sampling.temperature == 0.5
    assert config.seats == {"agent_1": "model_0"}
    assert config.rounds == 3
    assert tree == {"rollout": {"group_size": 4}, "models": {"count": 2}}


def test_configurations_are_frozen_and_can_be_pickled():
    with pytest.raises(ValidationError, match="frozen"):
        RunConfig().rounds = 3
    assert pickle.loads(pickle.dumps(FULL)) == FULL


def sections(kind):
    """Yield the section class and all section classes below it."""
    yield kind
    for field in kind.model_fields.values():
        waiting = [field.annotation, *field.metadata]
        while waiting:
            one = waiting.pop()
            if isinstance(one, Deferred):
                for deferred in one.kinds():
                    yield from sections(deferred)
            elif isinstance(one, type) and issubclass(one, Section):
                yield from sections(one)
            waiting += [part for part in get_args(one) if not isinstance(part, str)]


def test_every_setting_is_described_and_used():
    found = {kind: kind.model_fields for kind in sections(RunConfig)}
    assert len(found) > 20
    read = {
        node.attr
        for package in ("srl_train", "srl_extensions")
        for path in (ROOT / package).rglob("*.py")
        if path.parent.name != "config"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
    derived = {"count", "base", "algorithm", "algorithms", *STAGES}  # Read by properties.
    derived |= {one.name for one in dataclasses.fields(Loading)}  # Loading.of reads all.
    for kind, fields in found.items():
        for name, field in fields.items():
            assert field.description, f"{kind.__name__}.{name} has no description"
            # The sampling section is passed as a whole; a choice is given by the section's class.
            known = kind is SamplingConfig or name == kind.CHOICE or name in read | derived
            assert known, f"no code reads {kind.__name__}.{name}"


def test_patterns_compile_in_little_memory():
    """A counted repetition of the Unicode class \\w takes 8 to 20 MB; max_length costs nothing."""
    schema = json.dumps(RunConfig.model_json_schema())
    patterns = re.findall(r'"pattern": ("(?:[^"\\\\]|\\\\.)*")', schema)
    assert len(patterns) >= 2
    assert not [one for one in map(json.loads, patterns) if re.search(r"\\w.*\{\d*,\d\d", one)]


def test_a_tilde_is_the_home_folder_in_all_paths(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    served = {"name": "vllm", "folder": "~/a", "managed": {"python": "~/a"}}
    tree = {"sft": {"data": ["~/a"]}, "dpo": {"data": ["~/a"]}, "logging": {"directory": "~/a"}}
    tree |= {"models": {"base": "a/b", "chat_template": "~/a"}, "backend": served}
    assert dump(from_tree(tree)).count("/home/me/a") == 6
    assert LLMConfig(model_name="~/a").model_name == "/home/me/a"
    assert MultiModelConfig(checkpoint_dir="~/a").checkpoint_dir == "/home/me/a"
    assert place("~/a", "rows") == Trainer(run_dir="~/a").files.folder == Path("/home/me/a")
