"""Model cards: the README.md of a saved model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from srl_train.player_names import TINY
from srl_train.run_files import write_whole

_WHOLE = """from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("FOLDER")
tokenizer = AutoTokenizer.from_pretrained("FOLDER")"""
_ADAPTER = """from peft import AutoPeftModelForCausalLM
from transformers import AutoTokenizer

model = AutoPeftModelForCausalLM.from_pretrained("FOLDER")
tokenizer = AutoTokenizer.from_pretrained("FOLDER")"""


def write_card(folder: Path, name: str, trained: Mapping[str, Any] | None = None) -> None:
    """Write the card of a saved model; `trained` is the configuration of its run as plain data."""
    adapter = folder / "adapter_config.json"
    under = start = None
    if adapter.is_file():
        under = json.loads(adapter.read_text(encoding="utf-8"))["base_model_name_or_path"]
    if trained:
        start, place = trained["models"]["base"], name.rpartition("_")[2]
        if not isinstance(start, str):  # one base per model
            start = start[int(place)] if place.isdigit() and int(place) < len(start) else None
    header = {"library_name": "transformers" if under is None else "peft"}
    header["pipeline_tag"] = "text-generation"
    origin = under or start
    if origin and origin != TINY and not Path(origin).exists():  # the hub has no local folders
        header["base_model"] = origin.partition("@")[0]
    kind = "A causal language model." if under is None else f"A LoRA adapter on `{under}`."
    if under is None and start is not None:
        kind = f"A causal language model, trained from `{start}`."
    auto = "AutoModelForCausalLM" if under is None else "AutoPeftModelForCausalLM"
    library = "transformers" if under is None else "peft"
    lines = [
        "---",
        yaml.safe_dump(header, sort_keys=False).strip(),
        "---",
        "",
        f"# {name}",
        "",
        kind,
    ]
    if trained:
        lines += ["", _training(trained, name)]
    lines += [
        "",
        "```python",
        f"from {library} import {auto}",
        "from transformers import AutoTokenizer",
        "",
        f'model = {auto}.from_pretrained("FOLDER")',
        'tokenizer = AutoTokenizer.from_pretrained("FOLDER")',
        "```",
        "",
    ]
    write_whole(folder / "README.md", "\n".join(lines))


def _training(trained: Mapping[str, Any], name: str) -> str:
    """Describe the training in one paragraph."""
    environment, rollout = trained["environment"], trained["rollout"]
    algorithm = trained["algorithms"].get(name, trained["algorithm"])
    games = rollout["groups_per_round"]
    if rollout.get("branching") is None:
        games *= rollout["group_size"]
    stages = "".join(f"{stage}, then " for stage in ("sft", "dpo") if trained[stage] is not None)
    return (
        f"Trained with Core SRL in the environment `{environment['name']}` (options "
        f"{json.dumps(environment['options'])}): {stages}{algorithm['name']}, "
        f"{trained['rounds']} rounds of {games} games planned; mode {trained['mode']['name']}, "
        f"updates {trained['updates']['strategy']}, {trained['models']['count']} trained models, "
        f"seed {trained['seed']}."
    )
