"""Export of models as Hugging Face folders or PEFT adapters, and upload to the hub."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi
from peft import PeftModel

from srl_agents.llm.backends.huggingface.loading import no_bars
from srl_train.checkpoints.adapter_folders import adapter_base, merged
from srl_train.checkpoints.manifest import is_checkpoint
from srl_train.checkpoints.model_cards import write_card
from srl_train.config import yaml_file
from srl_train.errors import ConfigError, HubError
from srl_train.loading import checkpoint_modules, load_backend
from srl_train.player_names import Loading, PlayerSpec, config_tree, settings_of_run
from srl_train.run_files import refuse_taken


def export(
    named: PlayerSpec, name: str, folder: Path, *, merge: bool = False, trusted: bool = False
) -> None:
    """Write the model `name` of a player with its tokenizer and model card, whole or not at all.

    With `merge` an adapter is merged into its base. Raises ConfigError if the folder is not empty,
    or there is nothing to merge.
    """
    refuse_taken(folder)
    # The card contains only a validated configuration.
    trained = None
    if named.run is not None:
        trained = yaml_file.to_tree(yaml_file.from_tree(config_tree(named.run)))
    if named.run is not None and is_checkpoint(named.run):
        backends, modules = checkpoint_modules(named.run, [name], "cpu", trusted)
        backend = backends[name].with_model(modules[name])
    else:
        dtype = "auto" if named.run is None else settings_of_run(named.run).loading.dtype
        backend = load_backend(named.sources[name], _no_environment, Loading("cpu", dtype))
    if merge and not isinstance(backend.model, PeftModel):
        raise ConfigError(f"{name} is a whole model without an adapter, there is nothing to merge")
    if merge:
        backend = merged(backend)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            with no_bars():
                backend.model.save_pretrained(partial)
            backend.tokenizer.save_pretrained(partial)
            write_card(partial, name, trained)
            mask = os.umask(0)
            os.umask(mask)
            partial.chmod(0o777 & ~mask)
            os.replace(partial, folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise ConfigError(f"cannot write {folder}: {error.strerror}") from error


def push(folder: Path, repository: str, *, private: bool = False) -> str:
    """Upload an exported folder to the Hugging Face hub and return its address.

    Raises ConfigError for an adapter on a local base, and HubError if the hub refuses.
    """
    under = None
    if (folder / "adapter_config.json").is_file():
        under = adapter_base(str(folder))
    if under is not None and Path(under).exists():
        raise ConfigError(
            f"{folder} is written, and not pushed: it is an adapter on the local folder {under}; "
            "export it anew with --merge"
        )
    api = HfApi()
    try:
        address = api.create_repo(repository, private=private, exist_ok=True)
        api.upload_folder(
            repo_id=repository, folder_path=folder, commit_message="Export from Core SRL"
        )
    except Exception as error:  # the classes change between releases of the hub's client
        first = str(error).strip().partition("\n")[0] or type(error).__name__
        raise HubError(
            f"cannot push to {repository} ({first}); the model is in {folder}: log in with "
            f"`hf auth login`, then hf upload {repository} {folder}"
        ) from error
    return str(address)


def _no_environment() -> Any:
    raise ConfigError("the embedded model is built for a game: train it, and export the run's")
