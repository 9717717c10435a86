"""Every field of a configuration is documented, and read by the room that it names."""

import ast
import dataclasses
import inspect
from itertools import pairwise
from pathlib import Path

from srl_train.config import models as models_config
from srl_train.config import run as config_module
from srl_train.config.run import RunConfig

ROOT = Path(config_module.__file__).parents[2]

# Section -> how its readers call it (`self._config.clip`, `run.config.grpo.clip`, ...).
READERS = {
    "RunConfig": {"config", "_config"},
    "EnvironmentConfig": {"environment", "section"},
    "ModelsConfig": {"models"},
    "AdapterConfig": {"config", "adapters"},
    "PoolConfig": {"_config", "settings", "pool"},
    "ModeConfig": {"mode"},
    "UpdatesConfig": {"updates"},
    "GrpoConfig": {"config", "_config", "_optimizer_config", "grpo"},
    "PpoConfig": {"config", "_config", "_optimizer_config", "settings", "ppo"},
    "SurrogateConfig": {"config", "_config", "_optimizer_config"},
    "SftConfig": {"config", "_config", "_optimizer_config"},
    "DpoConfig": {"config", "_config", "_optimizer_config"},
    "RolloutConfig": {"rollout"},
    "CreditConfig": {"credit"},
    "CheckpointsConfig": {"checkpoints"},
    "LoggingConfig": {"logging"},
}
SECTIONS = {
    kind
    for module in (config_module, models_config)
    for name, kind in vars(module).items()
    if name.endswith("Config") and dataclasses.is_dataclass(kind)
}


def attributes_read():
    """(last name of what an attribute is read from, attribute) everywhere but in config*.py."""
    found = set()
    for path in (ROOT / "srl_train").rglob("*.py"):
        if path.name in ("config.py", "config_file.py", "learner_config.py", "models_config.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                found.add((ast.unparse(node.value).rsplit(".", 1)[-1], node.attr))
    return found


def test_every_field_is_documented_and_read_somewhere():
    assert {kind.__name__ for kind in SECTIONS} == set(READERS)
    read = attributes_read()
    derived = {("models", "count"): "names", ("models", "base"): "bases"}  # by way of properties
    derived |= {("config", name): "algorithm_of" for name in ("algorithm", "algorithms")}
    for kind in SECTIONS:
        documented = {
            field.target.id
            for one in kind.__mro__[:-1]
            for body in [ast.parse(inspect.getsource(one)).body[0].body]
            for field, after in pairwise(body)
            if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr)
        }
        for field in dataclasses.fields(kind):
            readers = {(who, field.name) for who in READERS[kind.__name__]}
            readers |= {(who, derived.get((who, field.name), "")) for who, _ in readers}
            assert readers & read, f"nobody reads {kind.__name__}.{field.name}"
            if not dataclasses.is_dataclass(field.type) and kind is not RunConfig:
                assert field.name in documented, f"{kind.__name__}.{field.name} has no docstring"
