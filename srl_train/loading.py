"""Loading of models: bases, adapters, checkpoints and model objects, and the samplers of a run."""

from __future__ import annotations

import copy
import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from peft import PeftModel
from torch import Tensor

from srl_agents.evaluation.progress import announced
from srl_agents.llm import tiny
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.backends.huggingface.loading import shared_states, source_of
from srl_agents.llm.backends.registry import api_model, is_api_name
from srl_agents.llm.model_folders import is_gguf
from srl_envs.tables import Plugin
from srl_train import checkpoints as checkpoint
from srl_train.adapters import (
    adapter_base,
    adapter_tokenizer,
    attach,
    copy_weights,
    merged,
    weights_for,
)
from srl_train.config import yaml_file
from srl_train.config.backend import TransformersBackendConfig
from srl_train.config.models import ModelsConfig
from srl_train.config.run import RunConfig
from srl_train.engines import ModelText, Players
from srl_train.environment import build_env
from srl_train.errors import CheckpointError, ConfigError
from srl_train.learners.learner import model_weights
from srl_train.learners.lora import ADAPTER, adapter_models, side_by_side
from srl_train.opponent_pool import OpponentPool
from srl_train.player_names import TINY, Loading, refuse_missing_folder
from srl_train.publisher import WeightPublisher
from srl_train.run_files import is_checkpoint
from srl_train.tensor_checks import misfit

ModelObject = tuple[Any, Any]
"""A PreTrainedModel and its tokenizer, passed by the caller."""
log = logging.getLogger(__name__)


class LoadedModel(NamedTuple):
    """Loaded model that does not train."""

    name: str
    backend: HuggingFaceBackend
    adapter: str | None
    """Name of the adapter of the backend's model to sample with; None for no adapter."""


def load_backend(
    base: str,
    make_env: Callable[[], Any],
    how: Loading,
    *,
    name: str | None = None,
    adapter: str = "default",
) -> HuggingFaceBackend:
    """Load a model into this process, and return the backend that samples from it.

    `base` is a model or PEFT adapter (folder or hub name), a GGUF file, or 'tiny'. An adapter is
    loaded under the name `adapter`, on the base that it names. 'tiny' is trained for the
    environment of `make_env`, and cached on disk. `name` is the backend's name in records, by
    default the last part of the model's name. Raises BackendError, ConfigError or PolicyError.
    """
    if base == TINY:
        base = str(tiny.folder(make_env))
    refuse_missing_folder(base)
    under = adapter_base(base)
    if under is not None:
        refuse_missing_folder(under)
    source, tokenizer = (base, None) if under is None else (under, adapter_tokenizer(base))
    with announced(f"loading {source}"):
        label = None if under else name
        whole = HuggingFaceBackend.load(source, tokenizer=tokenizer, name=label, **vars(how))
    if under is None:
        return whole
    adapted = whole.with_model(attach(whole.model, base, adapter).eval())
    adapted.name = name or Path(base).name
    return adapted


def load_all(
    folders: Mapping[str, str],
    make_env: Callable[[], Any],
    how: Loading,
    *,
    trusted: bool = False,
) -> list[LoadedModel]:
    """Load models that never train, and return them in the order of `folders`.

    `folders` is name -> 'tiny', folder, GGUF file, hub name or 'CHECKPOINT:model_0'. Adapters on
    one base share its backend; only bases of adapters are quantized. Models of a checkpoint use the
    device of `how`, and the other settings of their run. Raises BackendError, ConfigError,
    CheckpointError or PolicyError if a model cannot be loaded. Raises UntrustedError, unless
    `trusted`, if a checkpoint's model 'tiny' requires an environment that is code.
    """
    unquantized = dataclasses.replace(how, quantization=None)
    bases: dict[str, HuggingFaceBackend] = {}
    found: dict[str, LoadedModel] = {}
    saved: dict[Path, dict[str, str]] = {}
    for name, source in folders.items():
        if (inside := in_checkpoint(source)) is not None:
            saved.setdefault(inside[0], {})[name] = inside[1]
            continue
        base = None if source == TINY else adapter_base(source)
        if base is None:
            backend = load_backend(source, make_env, unquantized, name=name)
            found[name] = LoadedModel(name, backend, None)
            continue
        adapter = name.replace(".", "_")  # torch allows no dots in the names of modules
        if base in bases:
            attach(bases[base].model, source, adapter)
        else:
            bases[base] = load_backend(source, make_env, how, adapter=adapter)
        found[name] = LoadedModel(name, bases[base], adapter)
    for folder, names in saved.items():
        backends, modules = checkpoint_modules(folder, list(names.values()), how.device, trusted)
        adapted = any(isinstance(module, PeftModel) for module in modules.values())
        for name, model in names.items():
            found[name] = LoadedModel(name, backends[model], model if adapted else None)
    return [found[name] for name in folders]


# Models of a checkpoint


def in_checkpoint(source: str) -> tuple[Path, str] | None:
    """Return (folder, model) of 'CHECKPOINT:model_0'; None if the folder is no checkpoint."""
    folder, _, model = source.rpartition(":")
    return (Path(folder), model) if folder and is_checkpoint(Path(folder)) else None


def checkpoint_modules(
    folder: Path, names: Sequence[str], device: str, trusted: bool = False
) -> tuple[dict[str, HuggingFaceBackend], dict[str, Any]]:
    """Load the models `names` of a checkpoint; return model -> backend and model -> module.

    The modules are frozen and have the saved weights. Adapters of one base share a backend, in
    which each adapter has its model's name. Raises CheckpointError if the checkpoint is missing,
    damaged or does not fit its bases, and ConfigError, BackendError or PolicyError if a base is not
    loaded. Raises UntrustedError, unless `trusted`, if 'tiny' requires an environment that is code.
    """
    saved = checkpoint.load(folder)
    config = yaml_file.from_tree(saved.metadata.get("config"))
    models = config.models.replaced(device=device)
    bases = {name: models.bases[name] for name in names}
    make_env = partial(build_env, config, trusted=trusted)  # called if a base requires it
    backends, modules, _ = learning_models(models, bases, make_env, config.seed)
    for name in names:
        plays = model_weights(saved.tensors(f"models/{name}"))
        parameters = dict(modules[name].named_parameters())
        expected = {n: p for n, p in parameters.items() if p.requires_grad or n in plays}
        if wrong := misfit(plays, expected):
            raise CheckpointError(
                f"{folder}: the weights of {name} do not fit its base {bases[name]} ({wrong})"
            )
        with torch.no_grad():
            for place, tensor in plays.items():
                parameters[place].copy_(tensor)
        modules[name].requires_grad_(False)
    return backends, modules


# Models that train


def learning_models(
    models: ModelsConfig,
    bases: Mapping[str, str],
    make_env: Callable[[], Any],
    seed: int,
    *,
    play_copies: bool = False,
    given: Mapping[str, ModelObject] = MappingProxyType({}),
) -> tuple[dict[str, HuggingFaceBackend], dict[str, Any], dict[str, Any]]:
    """Load the models that train: whole models, or adapters that share their bases.

    If a base is a PEFT adapter, a model that trains an adapter starts from this adapter. A model
    that trains all weights starts from the adapter merged into its base.

    Args:
        models: Section `models`, of which `adapters` and the settings of loading are used.
        bases: Model -> base. Only these models are loaded.
        make_env: Constructor of the environment that 'tiny' is built for.
        seed: Seed of the adapters' first weights.
        play_copies: If True, backends sample from copies of the weights, also during an update.
        given: Model -> (PreTrainedModel, tokenizer) that replaces its base; ignored with adapters.

    Returns:
        Model -> backend, which adapters on one base share; model -> module to train; model ->
        module that the backend samples from. The two modules are one unless `play_copies`.

    Raises:
        ConfigError: If a folder is missing, or `models.adapters` does not fit a base.
        BackendError, PolicyError: If a model cannot be loaded.
    """
    how = Loading.of(models)
    if models.adapters is None:
        whole = dataclasses.replace(how, quantization=None)
        backends: dict[str, HuggingFaceBackend] = {}
        for name, base in bases.items():
            if name in given:
                model, tokenizer = given[name]
                model.requires_grad_(True).eval()
                backends[name] = HuggingFaceBackend(
                    model,
                    tokenizer,
                    name=name,
                    chat_template=how.chat_template,
                    chat_template_kwargs=how.chat_template_kwargs,
                )
                continue
            loaded = load_backend(base, make_env, whole, name=name)
            if isinstance(loaded.model, PeftModel):
                log.warning("%s: the adapter %s was merged into its base", name, base)
            backends[name] = merged(loaded)
        trained = {name: backend.model for name, backend in backends.items()}
        if play_copies:
            backends = {n: b.with_model(copy_to_play(trained[n])) for n, b in backends.items()}
        return backends, trained, {name: backend.model for name, backend in backends.items()}
    starts = {name: None if base == TINY else adapter_base(base) for name, base in bases.items()}
    sharing: dict[str, list[str]] = {}
    for name, base in bases.items():
        under = starts[name] or base
        shared = under if under == TINY or is_gguf(under) else source_of(under)[0]
        sharing.setdefault(shared, []).append(name)
    samplers: dict[str, HuggingFaceBackend] = {}
    trees: dict[str, Any] = {}
    played: dict[str, Any] = {}
    for under, names in sharing.items():
        loaded = load_backend(under, make_env, how)
        trained = adapter_models(loaded.model, names, models.adapters, seed)
        for name in names:
            if starts[name] is not None:
                start = weights_for(trained[name], bases[name], ADAPTER, "models.adapters")
                copy_weights(trained[name], ADAPTER, start)
        plays = {n: copy_to_play(tree) for n, tree in trained.items()} if play_copies else trained
        together = loaded.with_model(side_by_side(loaded.model, plays, models.adapters))
        samplers |= dict.fromkeys(names, together)
        trees |= trained
        played |= plays
    return samplers, trees, played


def copy_to_play(module: Any) -> Any:
    """Return a frozen copy in evaluation mode that shares tensors except trainable parameters."""
    frozen = [one for one in module.parameters() if not one.requires_grad]
    shared = [*frozen, *module.buffers(), *shared_states(module)]
    return copy.deepcopy(module, {id(one): one for one in shared}).eval().requires_grad_(False)


def with_model_objects(config: RunConfig, given: Mapping[str, ModelObject]) -> RunConfig:
    """Return a copy of the configuration with the sources and the dtype of model objects.

    `given` is model -> (PreTrainedModel, tokenizer). Raises ConfigError for an unknown model, an
    object passed twice or without a folder or hub name, or dtypes not all float32 or all bfloat16.
    """
    models = config.models
    if unknown := set(given) - set(models.names):
        raise ConfigError(f"unknown models {sorted(unknown)}; allowed: {models.names}")
    if len({id(model) for model, _ in given.values()}) < len(given):
        raise ConfigError("the same object is passed for two models")
    folders = {n: str(getattr(m.config, "_name_or_path", "")) for n, (m, _) in given.items()}
    for name, folder in folders.items():
        if not folder:
            raise ConfigError(
                f"{name} has no folder or hub name, which its checkpoints require: save the model "
                "with save_pretrained and load it from there"
            )
    types = {str(model.dtype).removeprefix("torch.") for model, _ in given.values()}
    if types not in ({"float32"}, {"bfloat16"}):
        raise ConfigError(
            f"the models' dtypes are {', '.join(sorted(types))}, must all be float32 or bfloat16"
        )
    bases = tuple((models.bases | folders).values())
    base = bases[0] if len(set(bases)) == 1 else bases
    return config.replaced(models=models.replaced(base=base, dtype=types.pop()))


# Publication of weights


@dataclass(frozen=True)
class InProcessPublisher(WeightPublisher):
    """Publisher for backends that sample from modules of this process."""

    backends: Mapping[str, HuggingFaceBackend]
    """Model or opponent pool -> backend."""
    snapshots: Mapping[str, Any]
    """Model or opponent pool -> module that receives copies of published weights. The backend of
    any other model samples from the module that trains."""
    adapters: frozenset[str]
    """Models and opponent pools that sample with the adapter of the same name."""

    def publish(self, name: str, version: int | str, tensors: Mapping[str, Tensor]) -> None:
        """Copy tensors into parameters of `snapshots[name]`, if any, and set the version.

        Other tensors are ignored. Blocks until the backend has sampled its current batch.
        """
        backend = self.backends[name]
        with backend.lock:
            if name in self.snapshots:
                parameters = dict(self.snapshots[name].named_parameters())
                with torch.no_grad():
                    for path in parameters.keys() & tensors.keys():  # others are the learner's
                        parameters[path].copy_(tensors[path])
            if name in self.adapters:
                backend.adapter_versions[name] = version
            else:
                backend.weights_version = version


# Samplers of a run


@dataclass(frozen=True)
class SamplerStart:
    """Arguments for opening the samplers of a run."""

    make_env: Callable[[], Any]
    logs: Path | None = None
    """Folder for logs of servers; None is a folder in the cache."""
    learns_here: bool = True
    """True if the models train in this process. If False, samplers copy published weights."""
    given: Mapping[str, ModelObject] = field(default_factory=dict)
    """Model -> (PreTrainedModel, tokenizer) to train; only if the backend is IN_PROCESS."""


@dataclass(frozen=True)
class Samplers:
    """Opened samplers of a run's models in training and opponent pools."""

    modules: Mapping[str, Any]
    """Model -> module to train, if it trains in this process; entries of pools are ignored."""
    backends: Mapping[str, Any]
    """Model in training, opponent pool, or frozen model on the same servers -> its backend."""
    publisher: WeightPublisher
    close: Callable[[], None] = lambda: None
    """Function that ends the servers of the samplers."""


def open_samplers(config: RunConfig, start: SamplerStart) -> Samplers:
    """Load the models in training, and a module per opponent pool, into this process.

    Raises the errors of `learning_models`.
    """
    section = config.backend
    assert isinstance(section, TransformersBackendConfig)
    models, pools = config.models, config.opponent_pools
    bases = models.bases | {name: models.bases[pool.models[0]] for name, pool in pools.items()}
    ahead = config.engine.play_ahead and start.learns_here
    backends, trees, played = learning_models(
        models, bases, start.make_env, config.seed, play_copies=ahead, given=start.given
    )
    published = pools if start.learns_here and not ahead else played
    snapshots = {name: played[name] for name in published}
    for tree in snapshots.values():
        tree.requires_grad_(False)
    for loaded in backends.values():
        loaded.batched = section.batched
        loaded.caches.most_tokens = section.kv_cache_tokens
    adapters = frozenset(backends) if models.adapters is not None else frozenset()
    return Samplers(trees, backends, InProcessPublisher(backends, snapshots, adapters))


def build_backends(
    config: RunConfig, start: SamplerStart, samplers: Samplers | None = None
) -> Players:
    """Load every model of a run once, frozen models included, and return them as Players.

    `samplers` are those of the models in training; None opens those of the section `backend` with
    the arguments `start`. Raises the errors of `load_all`, after closing the samplers.
    """
    models = config.models
    chat = {n: api_model(base) for n, base in models.frozen_models.items() if is_api_name(base)}
    with ExitStack() as on_error:
        if samplers is None:
            samplers = Plugin(config.backend.SAMPLERS).load()(config, start)
        on_error.callback(samplers.close)
        backends = dict(samplers.backends)
        adapters = frozenset(backends) if models.adapters is not None else frozenset()
        how = Loading.of(models)
        for name, base in models.frozen_models.items():
            if name in chat or name in backends:
                continue
            if (inside := in_checkpoint(base)) is not None:
                folder, model = inside
                loaded, modules = checkpoint_modules(folder, [model], models.device)
                backends[name] = loaded[model].with_model(modules[model])
                backends[name].name = name
            else:
                backends[name] = load_backend(base, start.make_env, how, name=name)
                backends[name].model.requires_grad_(False)
        pools = {
            name: OpponentPool(name, section, samplers.publisher)
            for name, section in config.opponent_pools.items()
        }
        texts = {n: ModelText(one.name, one.chat, one.positions) for n, one in backends.items()}
        on_error.pop_all()
    modules = {n: samplers.modules[n] for n in models.names if n in samplers.modules}
    close = samplers.close
    return Players(backends, modules, pools, samplers.publisher, adapters, texts, close, chat)
