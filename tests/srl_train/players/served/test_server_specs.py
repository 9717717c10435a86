"""Servers that a configuration asks for."""

import importlib.util
import sys

import pytest

from srl_agents.errors import PlacementError
from srl_agents.serving.gpus import Gpu
from srl_train.config.backend import ManagedServersConfig
from srl_train.config.yaml_file import from_tree
from srl_train.errors import ConfigError
from srl_train.players.served import server_specs


@pytest.mark.parametrize("python", ["/nowhere/bin/python", "~/vllm/bin/python", "/etc/passwd", ""])
def test_a_python_that_is_not_there_is_refused(python):
    with pytest.raises(ConfigError, match=r"backend.managed.python: there is no program"):
        server_specs.check_python(ManagedServersConfig(python=python))


def test_the_trainers_own_python_has_to_have_vllm(monkeypatch):
    with pytest.raises(ConfigError, match=r"backend.managed.python: not given, and .* no vLLM"):
        server_specs.check_python(ManagedServersConfig())
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    server_specs.check_python(ManagedServersConfig())
    server_specs.check_python(ManagedServersConfig(python=sys.executable))


@pytest.mark.parametrize("there, told", [((), "'?none"), ((0, 1), r"\[0, 1\]")])
def test_gpus_that_are_not_there_are_refused(monkeypatch, tmp_path, there, told):
    monkeypatch.setattr(server_specs, "find_gpus", lambda: [Gpu(index, 80, 80) for index in there])
    backend = {"name": "vllm", "managed": {"gpus": [1, 7]}}
    config = from_tree({"models": {"adapters": {}}, "backend": backend})
    with pytest.raises(PlacementError, match=rf"got \[1, 7\], and this machine has {told}"):
        server_specs.server_specs(
            config, config.backend.managed, {}, keep_versions=1, log_folder=tmp_path
        )


def test_adapters_of_several_bases_are_refused(tiny_folder, tmp_path):
    config = from_tree(
        {"models": {"adapters": {}, "count": 2}, "backend": {"name": "transformers"}}
    )
    starts = {"model_0": tiny_folder, "model_1": str(tmp_path)}
    with pytest.raises(ConfigError, match=r"hold adapters of one base, and models.base comes to"):
        server_specs.served_bases(config, starts)
    assert server_specs.served_bases(config, dict.fromkeys(starts, tiny_folder)) == {
        server_specs.BASE: tiny_folder
    }
