"""Export of models as Hugging Face folders or PEFT adapters with model cards, and upload."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, ModelCardData
from peft import PeftModel

from srl_agents.llm.backends.huggingface.loading import no_bars
from srl_train.adapters import adapter_base, merged
from srl_train.config import yaml_file
from srl_train.errors import ConfigError, HubError
from srl_train.loading import checkpoint_modules, load_backend
from srl_train.player_names import TINY, Loading, PlayerSpec, config_tree, settings_of_run
from srl_train.run_files import is_checkpoint, refuse_taken, write_whole

_CARD = """---
{header}
---

# {name}

{kind}

{training}

```python
from {library} import {auto}
from transformers import AutoTokenizer

model = {auto}.from_pretrained("FOLDER")
tokenizer = AutoTokenizer.from_pretrained("FOLDER")
```
"""


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


def write_card(folder: Path, name: str, trained: Mapping[str, Any] | None = None) -> None:
    """Write the README.md of a saved model; `trained` is the configuration of its run."""
    adapter = folder / "adapter_config.json"
    under = start = None
    if adapter.is_file():
        under = json.loads(adapter.read_text(encoding="utf-8"))["base_model_name_or_path"]
    if trained:
        start, place = trained["models"]["base"], name.rpartition("_")[2]
        if not isinstance(start, str):  # one base per model
            start = start[int(place)] if place.isdigit() and int(place) < len(start) else None
    origin = under or start
    if origin in (None, TINY) or Path(origin).exists():  # the hub has no local folders
        origin = None
    header = ModelCardData(
        base_model=origin and origin.partition("@")[0],
        library_name="peft" if under else "transformers",
        pipeline_tag="text-generation",
    )
    kind = f"A LoRA adapter on `{under}`." if under else "A causal language model."
    if start and not under:
        kind = f"A causal language model, trained from `{start}`."
    card = _CARD.format(
        header=header.to_yaml(),
        name=name,
        kind=kind,
        training=_training(trained, name) if trained else "",
        library="peft" if under else "transformers",
        auto="AutoPeftModelForCausalLM" if under else "AutoModelForCausalLM",
    )
    write_whole(folder / "README.md", card)


def _training(trained: Mapping[str, Any], name: str) -> str:
    environment, rollout = trained["environment"], trained["rollout"]
    algorithm = trained["algorithms"].get(name, trained["algorithm"])
    games = rollout["groups_per_round"]
    if not rollout.get("branching"):
        games *= rollout["group_size"]
    stages = "".join(f"{stage}, then " for stage in ("sft", "dpo") if trained[stage] is not None)
    return (
        f"Trained with Core SRL in the environment `{environment['name']}` (options "
        f"{json.dumps(environment['options'])}): {stages}{algorithm['name']}, "
        f"{trained['rounds']} rounds of {games} games planned; mode {trained['mode']['name']}, "
        f"updates {trained['updates']['strategy']}, {trained['models']['count']} trained models, "
        f"seed {trained['seed']}."
    )
