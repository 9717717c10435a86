"""The models that learn, as they start: whole models, or adapters on one shared base."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from typing import Any

from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_train.checkpoints.adapter_folders import adapter_base, go_on_from, merged
from srl_train.config.models import ModelsConfig
from srl_train.errors import ConfigError
from srl_train.learners.lora import adapter_models, side_by_side
from srl_train.players.load import load_backend
from srl_train.players.player_spec import TINY
from srl_train.players.trained_models import Loading, notes_of

log = logging.getLogger(__name__)


def learning_models(
    models: ModelsConfig, bases: Mapping[str, str], make_env: Callable[[], Any], seed: int
) -> tuple[dict[str, HuggingFaceBackend], dict[str, Any]]:
    """(name -> what samples for it, name -> the module to train) as they start out from `bases`.

    A base that is a PEFT adapter is gone on from by a model that trains an adapter, and merged into
    its own base for one that trains as a whole. Raises ConfigError for adapters of other settings
    than `models.adapters`, and for several bases of adapters.
    """
    how, notes = Loading.of(models), notes_of(models.opponent_notes, make_env())
    if models.adapters is None:
        whole = dataclasses.replace(how, quantization=None)
        own = {
            name: merged(load_backend(base, make_env, whole, name=name, notes=notes))
            for name, base in bases.items()
        }
        for one in dict.fromkeys(bases.values()):
            if one != TINY and adapter_base(one) is not None:
                log.warning("models.base %s is an adapter: it was merged into its base", one)
        return own, {name: backend.model for name, backend in own.items()}
    starts = {name: None if base == TINY else adapter_base(base) for name, base in bases.items()}
    under = {starts[name] or base for name, base in bases.items()}
    if len(under) > 1:
        raise ConfigError(
            f"models.adapters needs one shared base, models.base comes to {sorted(under)}"
        )
    base = load_backend(under.pop(), make_env, how, notes=notes)
    trees = adapter_models(base.model, tuple(bases), models.adapters, seed)
    for name, start in starts.items():
        if start is not None:
            go_on_from(trees[name], bases[name])
    together = HuggingFaceBackend(
        side_by_side(base.model, trees, models.adapters),
        base.tokenizer,
        name=base.name,
        chat_template_kwargs=models.chat_template_kwargs,
    )
    return dict.fromkeys(bases, together), trees
