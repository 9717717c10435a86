"""Settings of servers from a configuration."""

import pytest

from srl_extensions.vllm import models
from srl_extensions.vllm.config import ManagedServersConfig
from srl_extensions.vllm.placement import Gpu
from srl_train.config.yaml_file import from_tree
from srl_train.errors import ConfigError


@pytest.mark.parametrize("python", ["/nowhere/bin/python", "~/vllm/bin/python", "/etc/passwd", ""])
def test_missing_python_is_refused(python):
    with pytest.raises(ConfigError, match=r"backend.managed.python: there is no program"):
        models.check_python(ManagedServersConfig(python=python))


def specs_of(monkeypatch, base, indices, **managed):
    backend = {"name": "vllm", "managed": managed}
    tree = {"models": {"adapters": {"rank": 4}, "count": 2}, "backend": backend}
    config = from_tree(tree)
    monkeypatch.setattr(models, "find_gpus", lambda: [Gpu(index, 80, 80) for index in indices])
    return models.server_specs(config, config.backend.managed, {"base": base})


def test_server_specs_follow_the_configuration(tiny_folder, monkeypatch):
    own = {"swap_space": 4, "enable_prefix_caching": False, "trust-x": True}
    one, two = specs_of(
        monkeypatch,
        tiny_folder,
        (0, 1, 2),
        replicas=2,
        gpus=[1, 2],
        base_port=9001,
        options=own,
    )
    assert (one.port, one.gpus, two.port, two.gpus) == (9001, (1,), 9002, (2,))
    assert one.adapter_slots == 2 * 3 and one.max_rank == 4 and one.memory_fraction == 0.9
    assert one.extra_arguments == (
        "--swap-space", "4", "--no-enable-prefix-caching", "--trust-x",
    )  # fmt: skip
    assert len({spec.port for spec in specs_of(monkeypatch, tiny_folder, (0,), replicas=3)}) == 3


def test_adapters_of_several_bases_are_refused(tiny_folder, tmp_path):
    config = from_tree(
        {
            "models": {"adapters": {}, "count": 2},
            "backend": {"name": "vllm", "servers": ["http://127.0.0.1:8001"]},
        }
    )
    two = config.replaced(models=config.models.replaced(base=(tiny_folder, str(tmp_path))))
    with pytest.raises(ConfigError, match=r"models\.base"):
        models.served_bases(two, None)
    one = config.replaced(models=config.models.replaced(base=tiny_folder))
    starts, sources = models.served_bases(one, None)
    assert starts == dict.fromkeys(one.models.names, tiny_folder)
    assert sources == {models.BASE: tiny_folder}
