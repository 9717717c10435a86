"""Export of models as Hugging Face folders or PEFT adapters, with model cards."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCardData
from peft import PeftModel

from srl_agents.llm.backends.huggingface.loading import no_bars
from srl_train.adapters import merged
from srl_train.config import yaml_file
from srl_train.errors import ConfigError
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
    player: PlayerSpec, name: str, folder: Path, *, merge: bool = False, trusted: bool = False
) -> None:
    """Write a model of a player, its tokenizer and model card into a new folder, atomically.

    With `merge`, an adapter is merged into its base; `trusted` permits to import code that a
    checkpoint's configuration names. Raises ConfigError if the folder is not empty or cannot be
    written, or there is no adapter to merge.
    """
    refuse_taken(folder)
    # The model card contains only a validated configuration.
    trained = None
    if player.run is not None:
        trained = yaml_file.to_tree(yaml_file.from_tree(config_tree(player.run)))
    if player.run is not None and is_checkpoint(player.run):
        backends, modules = checkpoint_modules(player.run, [name], "cpu", trusted)
        backend = backends[name].with_model(modules[name])
    else:
        dtype = "auto" if player.run is None else settings_of_run(player.run).loading.dtype
        backend = load_backend(player.sources[name], _no_environment, Loading("cpu", dtype))
    if merge and not isinstance(backend.model, PeftModel):
        raise ConfigError(f"--merge requires an adapter, but {name} has none")
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
            partial.chmod(0o755)  # mkdtemp gives access to the owner only.
            os.replace(partial, folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise ConfigError(f"cannot write {folder}: {error.strerror}") from error


def _no_environment() -> Any:
    raise ConfigError("the embedded model cannot be exported without a run: train it first")


def write_card(folder: Path, name: str, trained: Mapping[str, Any] | None = None) -> None:
    """Write README.md, the model card of the model `name` that is saved in `folder`.

    `trained` is the configuration of the model's run as plain data.
    """
    adapter = folder / "adapter_config.json"
    base = start = None
    if adapter.is_file():
        base = json.loads(adapter.read_text(encoding="utf-8"))["base_model_name_or_path"]
    if trained:
        start, number = trained["models"]["base"], name.rpartition("_")[2]
        if not isinstance(start, str):  # A list with one base per model.
            start = start[int(number)] if number.isdigit() and int(number) < len(start) else None
    origin = base or start
    if origin in (None, TINY) or Path(origin).exists():  # Not a model of the hub.
        origin = None
    library = "peft" if base else "transformers"
    header = ModelCardData(
        base_model=origin and origin.partition("@")[0],
        library_name=library,
        pipeline_tag="text-generation",
    )
    kind = f"A LoRA adapter on `{base}`." if base else "A causal language model."
    if start and not base:
        kind = f"A causal language model, trained from `{start}`."
    card = _CARD.format(
        header=header.to_yaml(),
        name=name,
        kind=kind,
        training=_training(trained, name) if trained else "",
        library=library,
        auto="AutoPeftModelForCausalLM" if base else "AutoModelForCausalLM",
    )
    write_whole(folder / "README.md", card)


def _training(trained: Mapping[str, Any], name: str) -> str:
    environment, mode = trained["environment"], trained["mode"]["name"]
    algorithm = trained["algorithms"].get(name, trained["algorithm"])
    stages = "".join(f"{stage}, then " for stage in ("sft", "dpo") if trained[stage] is not None)
    return (
        f"Trained with Core SRL in the environment `{environment['name']}` (options "
        f"{json.dumps(environment['options'])}): {stages}{algorithm['name']}, "
        f"{trained['rounds']} rounds planned; mode {mode}, updates "
        f"{trained['updates']['strategy']}, {trained['models']['count']} trained models, "
        f"seed {trained['seed']}."
    )
