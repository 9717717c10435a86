"""Model objects that are trained where they are, and a configuration that says what they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from srl_train.errors import ConfigError
from srl_train.players.learning_models import ModelObject

if TYPE_CHECKING:
    from srl_train.config.run import RunConfig

DTYPES = ("float32", "bfloat16")


def of_objects(config: RunConfig, given: Mapping[str, ModelObject]) -> RunConfig:
    """The config with where the objects came from as their bases, and their type of numbers.

    So a run's checkpoints, which hold all weights, can be loaded from its files alone. Raises
    ConfigError for objects that cannot be trained as they are.
    """
    if not given:
        return config
    models = config.models
    _refuse_elsewhere(config, given)
    bases = models.bases
    for name, (model, _) in given.items():
        bases[name] = str(getattr(model.config, "_name_or_path", ""))
        if not bases[name]:
            raise ConfigError(
                f"{name}: the model came from no folder or hub name, which its checkpoints need: "
                "save it with save_pretrained, and load that"
            )
    types = {str(model.dtype).removeprefix("torch.") for model, _ in given.values()}
    if len(types) > 1 or not types <= {*DTYPES}:
        raise ConfigError(
            f"the models' numbers are {', '.join(sorted(types))}: give all of them one type that "
            f"can be trained, {' or '.join(DTYPES)}, such as by model.to(torch.bfloat16)"
        )
    [dtype] = types
    alike = len(set(bases.values())) == 1
    base = next(iter(bases.values())) if alike else tuple(bases.values())
    return config.replaced(models=models.replaced(base=base, dtype=dtype))


def _refuse_elsewhere(config: RunConfig, given: Mapping[str, ModelObject]) -> None:
    """Raise ConfigError for names that are none, one object twice, and learning somewhere else."""
    names = config.models.names
    for name in given:
        if name not in names:
            raise ConfigError(f"there is no {name!r} to hand over: the models are {names}")
    if len({id(model) for model, _ in given.values()}) < len(given):
        raise ConfigError("one model object was handed over twice: each trains weights of its own")
