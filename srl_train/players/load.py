"""Loading of models: tiny, local folders, hub names, adapters and checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from srl_agents.evaluation.progress import announced
from srl_agents.llm import tiny
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.opponent_notes import PartnerNotes
from srl_train.checkpoints.adapter_folders import adapter_base, attach, own_tokenizer
from srl_train.errors import ConfigError
from srl_train.players.player_spec import TINY, refuse_missing_folder
from srl_train.players.trained_models import Loading


def load_backend(
    base: str,
    make_env: Callable[[], Any],
    how: Loading,
    *,
    name: str | None = None,
    notes: PartnerNotes | None = None,
    adapter: str = "default",
) -> HuggingFaceBackend:
    """The backend of 'tiny' (for `make_env`'s game, told `notes`), a local folder, a GGUF file or
    a hub name; of a PEFT adapter, a PeftModel on the adapter's base, which calls it `adapter`.

    Raises BackendError for what cannot be loaded, ConfigError for a folder that is not there and
    PolicyError for 'tiny' where the game gives it nothing to start from.
    """
    if base == TINY:
        return _whole(str(tiny.folder(make_env, notes=notes)), how, name)
    refuse_missing_folder(base)
    under = adapter_base(base)
    if under is None:
        return _whole(base, how, name)
    whole = _base_of(base, under, how)
    adapted = whole.with_model(attach(whole.model, base, adapter).eval())
    adapted.name = name or Path(base).name
    return adapted


def _base_of(adapter: str, base: str, how: Loading) -> HuggingFaceBackend:
    try:
        refuse_missing_folder(base)
    except ConfigError as error:
        raise ConfigError(f"the adapter {adapter}: its base: {error}") from error
    return _whole(base, how, None, own_tokenizer(adapter))


def _whole(
    source: str, how: Loading, name: str | None, tokenizer: Any = None
) -> HuggingFaceBackend:
    with announced(f"loading {source}"):
        return HuggingFaceBackend.load(source, tokenizer=tokenizer, name=name, **vars(how))
