"""The models that learn, as they start: whole models, or adapters on bases that they share."""

from __future__ import annotations

import copy
import dataclasses
import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.backends.huggingface.quantization import shared_states
from srl_agents.llm.backends.huggingface.sources import source_of
from srl_agents.llm.hub_names import is_gguf
from srl_train.checkpoints.adapter_folders import adapter_base, go_on_from, merged
from srl_train.config.models import ModelsConfig
from srl_train.learners.lora import adapter_models, check_adapter_names, side_by_side
from srl_train.players.load import load_backend
from srl_train.players.player_spec import TINY
from srl_train.players.trained_models import Loading, configured_notes

ModelObject = tuple[Any, Any]
"""A PreTrainedModel and its tokenizer, which somebody holds."""
log = logging.getLogger(__name__)


def learning_models(
    models: ModelsConfig,
    bases: Mapping[str, str],
    make_env: Callable[[], Any],
    seed: int,
    *,
    play_copies: bool = False,
    given: Mapping[str, ModelObject] = MappingProxyType({}),
) -> tuple[dict[str, HuggingFaceBackend], dict[str, Any], dict[str, Any]]:
    """(name -> what samples for it, name -> the module to train, name -> the module it samples
    from) as they start out from `bases`.

    Training and sampling share one module, or with `play_copies` only those of its tensors that do
    not train, so that a model can be played while it learns. A base that is a PEFT adapter is gone
    on from by a model that trains an adapter, and merged into its own base for one that trains as a
    whole; `given` are trained as they are. Adapters of one base share it. Raises ConfigError for
    adapters of other settings than `models.adapters`, and for names that adapters cannot have.
    """
    how, notes = Loading.of(models), configured_notes(models, make_env)
    if models.adapters is None:
        whole = dataclasses.replace(how, quantization=None)
        own: dict[str, HuggingFaceBackend] = {}
        read: dict[str, HuggingFaceBackend] = {}
        for name, base in bases.items():
            if name in given:
                own[name] = as_it_is(given[name], how, name)
            elif base in read:  # a copy takes a fraction of the time
                start = copy.deepcopy((read[base].model, read[base].tokenizer))
                own[name] = as_it_is(start, how, name)
            else:
                loaded = load_backend(base, make_env, whole, name=name, notes=notes)
                own[name] = read[base] = merged(loaded)
        for one in dict.fromkeys(bases.values()):
            if one != TINY and adapter_base(one) is not None:
                log.warning("models.base %s is an adapter: it was merged into its base", one)
        trained = {name: backend.model for name, backend in own.items()}
        if play_copies:
            own = {n: backend.with_model(copy_to_play(trained[n])) for n, backend in own.items()}
        return own, trained, {name: backend.model for name, backend in own.items()}
    check_adapter_names(bases)
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
        loaded = load_backend(under, make_env, how, notes=notes)
        trained = adapter_models(loaded.model, names, models.adapters, seed)
        for name in names:
            if starts[name] is not None:
                go_on_from(trained[name], bases[name])
        plays = {n: copy_to_play(tree) for n, tree in trained.items()} if play_copies else trained
        together = loaded.with_model(side_by_side(loaded.model, plays, models.adapters))
        samplers |= dict.fromkeys(names, together)
        trees |= trained
        played |= plays
    return samplers, trees, played


def as_it_is(given: ModelObject, how: Loading, name: str) -> HuggingFaceBackend:
    """The backend of a model object that somebody holds, with all its weights learning."""
    model, tokenizer = given
    model.requires_grad_(True).eval()
    return HuggingFaceBackend(
        model,
        tokenizer,
        name=name,
        chat_template=how.chat_template,
        chat_template_kwargs=how.chat_template_kwargs,
    )


def copy_to_play(module: Any) -> Any:
    """The module with copies of what trains of it, and the very tensors of all else."""
    still = [one for one in module.parameters() if not one.requires_grad]
    shared = [*still, *module.buffers(), *shared_states(module)]
    played = copy.deepcopy(module, {id(one): one for one in shared})
    return played.eval().requires_grad_(False)
