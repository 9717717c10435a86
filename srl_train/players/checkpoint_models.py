"""Models of a checkpoint, built from its run's configuration and saved weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_envs import registry
from srl_train.checkpoints import checkpoint
from srl_train.config import yaml_file
from srl_train.engine.builders.environment import build_env
from srl_train.errors import CheckpointError, ConfigError
from srl_train.players.learning_models import learning_models
from srl_train.players.player_spec import TINY


def checkpoint_modules(
    folder: Path, names: Sequence[str], device: str, trusted: bool = False
) -> tuple[dict[str, HuggingFaceBackend], dict[str, Any]]:
    """(name -> what samples for it, name -> the module with its weights) for these models of the
    checkpoint; of adapters one backend samples for all.

    Needs what resuming needs: the run's base, and for 'tiny' its environment. Raises ConfigError
    where these cannot be had, UntrustedError where the environment is code that its configuration
    names and nobody trusts, and CheckpointError for damaged or foreign weights.
    """
    saved = checkpoint.load(folder)
    config = yaml_file.from_tree(saved.metadata.get("config"))
    models = config.models.replaced(device=device)
    bases = dict(zip(models.names, models.bases, strict=True))
    wanted = {name: bases[name] for name in names}
    handed_over = config.environment.name.startswith(f"{registry.HANDED_OVER}:")
    if TINY in wanted.values() and handed_over:
        raise ConfigError(
            f"{folder}: the base 'tiny' was built for an environment that was handed over as an "
            "object, and cannot be built again: give the models of the ended run"
        )
    if TINY in wanted.values() or models.opponent_notes:
        make_env: Callable[[], Any] = partial(build_env, config, trusted=trusted)
    else:
        make_env = _no_environment
    backends, modules, _ = learning_models(models, wanted, make_env, config.seed)
    for name, module in modules.items():
        parameters = dict(module.named_parameters())
        try:
            with torch.no_grad():
                for parameter, weights in saved.tensors(f"models/{name}").items():
                    parameters[parameter].copy_(weights)
        except (KeyError, RuntimeError) as error:
            raise CheckpointError(
                f"{folder}: the weights of {name} do not fit its base {wanted[name]} ({error})"
            ) from error
        module.requires_grad_(False)
    return backends, modules


def _no_environment() -> None:
    """For models that are loaded without one."""
