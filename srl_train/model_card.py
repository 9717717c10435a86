"""Model cards of trained models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCardData

from srl_train.player_names import TINY
from srl_train.run_files import write_whole

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
    card = _CARD.format(
        header=header.to_yaml(),
        name=name,
        kind=f"A LoRA adapter on `{base}`." if base else "A causal language model.",
        training=_training(trained) if trained else "",
        library=library,
        auto="AutoPeftModelForCausalLM" if base else "AutoModelForCausalLM",
    )
    write_whole(folder / "README.md", card)


def _training(trained: Mapping[str, Any]) -> str:
    return (
        f"Trained with Core SRL from `{trained['models']['base']}` in the environment "
        f"`{trained['environment']['name']}` for {trained['rounds']} rounds: "
        f"algorithm {trained['algorithm']['name']}, mode {trained['mode']['name']}, updates "
        f"{trained['updates']['strategy']}, "
        f"{trained['models']['count']} models, seed {trained['seed']}."
    )
