"""Models of a checkpoint, built from its run's configuration and saved weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_envs import registry
from srl_train.checkpoints import checkpoint
from srl_train.checkpoints.tensor_tree import misfit
from srl_train.config import yaml_file
from srl_train.config.run import RunConfig
from srl_train.environment import build_env
from srl_train.errors import CheckpointError, ConfigError
from srl_train.learners.critics import without_critic
from srl_train.players.learning_models import learning_models
from srl_train.players.opponent_pool import OpponentPool, load_pools
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
    wanted = {name: (name, saved.tensors(f"models/{name}")) for name in names}
    return _with_weights(folder, config, wanted, device, trusted)


def checkpoint_pool(
    folder: Path, name: str, device: str, trusted: bool = False
) -> tuple[OpponentPool, dict[str, tuple[HuggingFaceBackend, str | None]]]:
    """(an opponent pool as it is in the checkpoint, snapshot -> what samples for it and its adapter
    there, if it is one); all are loaded. It seats nobody. Raises as `checkpoint_modules`."""
    saved = checkpoint.load(folder)
    config = yaml_file.from_tree(saved.metadata.get("config"))
    pools = {one: OpponentPool(one, own) for one, own in config.opponent_pools.items()}
    if name not in pools:
        raise CheckpointError(f"{folder} has no opponent pool {name!r}")
    drawn_from = {model for own in config.opponent_pools.values() for model in own.of}
    load_pools(pools, saved, {model: saved.tensors(f"models/{model}") for model in drawn_from})
    pool = pools[name]
    if not pool.snapshots:
        raise CheckpointError(f"{folder}: the pool {name} has no snapshots yet: no round was begun")
    wanted = {one.name: (one.model, one.weights) for one in pool.snapshots}
    backends, modules = _with_weights(folder, config, wanted, device, trusted)
    adapted = config.models.adapters is not None
    for one in pool.snapshots:  # answers are marked as they were in training
        backend = backends[one.name]
        if adapted:
            backend.adapter_versions[one.name] = one.name
        else:
            backend.name, backend.weights_version = name, one.name
    return pool, {one: (backends[one], one if adapted else None) for one in modules}


def _with_weights(
    folder: Path,
    config: RunConfig,
    wanted: Mapping[str, tuple[str, Mapping[str, Tensor]]],
    device: str,
    trusted: bool,
) -> tuple[dict[str, HuggingFaceBackend], dict[str, Any]]:
    """What `checkpoint_modules` gives, for names of one's own -> (model, its weights)."""
    models = config.models.replaced(device=device)
    bases = {name: models.bases[model] for name, (model, _) in wanted.items()}
    handed_over = config.environment.name.startswith(f"{registry.HANDED_OVER}:")
    if TINY in bases.values() and handed_over:
        raise ConfigError(
            f"{folder}: the base 'tiny' was built for an environment that was handed over as an "
            "object, and cannot be built again: give the models of the ended run"
        )
    if TINY in bases.values() or models.opponent_notes:
        make_env: Callable[[], Any] = partial(build_env, config, trusted=trusted)
    else:
        make_env = _no_environment
    backends, modules, _ = learning_models(models, bases, make_env, config.seed)
    for name, (_, weights) in wanted.items():
        plays, held = without_critic(weights), dict(modules[name].named_parameters())
        read = {place: own for place, own in held.items() if own.requires_grad or place in plays}
        if wrong := misfit(plays, read):
            raise CheckpointError(
                f"{folder}: the weights of {name} do not fit its base {bases[name]} ({wrong})"
            )
        with torch.no_grad():
            for place, own in plays.items():
                held[place].copy_(own)
        modules[name].requires_grad_(False)
    return backends, modules


def _no_environment() -> None:
    """For models that are loaded without one."""
