"""Model cards: the README.md beside a saved model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from srl_train.engine.run_files import write_whole
from srl_train.player_names import TINY

_WHOLE = """from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("FOLDER")
tokenizer = AutoTokenizer.from_pretrained("FOLDER")"""
_ADAPTER = """from peft import AutoPeftModelForCausalLM
from transformers import AutoTokenizer

model = AutoPeftModelForCausalLM.from_pretrained("FOLDER")
tokenizer = AutoTokenizer.from_pretrained("FOLDER")"""


def write_card(folder: Path, name: str, trained: Mapping[str, Any] | None = None) -> None:
    """Describe the model that was saved in `folder`; `trained` is the configuration of the run that
    trained it as `name`, as plain data."""
    adapter = folder / "adapter_config.json"
    under = None
    if adapter.is_file():
        under = json.loads(adapter.read_text(encoding="utf-8"))["base_model_name_or_path"]
    start = _base_of(trained, name) if trained else under
    told = {"library_name": "transformers" if under is None else "peft"}
    told["pipeline_tag"] = "text-generation"
    # The hub knows bases by their names there, and nobody else has this machine's folders.
    origin = under or start
    if origin and origin != TINY and not Path(origin).exists():
        told["base_model"] = origin.partition("@")[0]
    lines = ["---", yaml.safe_dump(told, sort_keys=False).strip(), "---", "", f"# {name}", ""]
    if under is not None:
        lines.append(f"A LoRA adapter on `{under}`.")
    elif start is not None:
        lines.append(f"A causal language model with all its weights; it began as `{start}`.")
    else:
        lines.append("A causal language model with all its weights.")
    if trained:
        lines += ["", _training(trained, name)]
    lines += ["", "```python", _WHOLE if under is None else _ADAPTER, "```", ""]
    write_whole(folder / "README.md", "\n".join(lines))


def _base_of(trained: Mapping[str, Any], name: str) -> str | None:
    base = trained["models"]["base"]
    place = name.rpartition("_")[2]
    if not isinstance(base, str):
        return str(base[int(place)]) if place.isdigit() and int(place) < len(base) else None
    return base


def _training(trained: Mapping[str, Any], name: str) -> str:
    """In one paragraph what the configuration says of how the model learned."""
    environment, rollout = trained["environment"], trained["rollout"]
    algorithm = trained["algorithms"].get(name, trained["algorithm"])
    games = rollout["groups_per_round"]
    if rollout.get("branching") is None:
        games *= rollout["group_size"]
    stages = [stage for stage in ("sft", "dpo") if trained[stage] is not None]
    steps = [*(f"{stage}, then" for stage in stages)]
    return " ".join(
        [
            "Trained with Core SRL in the environment",
            f"`{environment['name']}` (options {json.dumps(environment['options'])}):",
            *steps,
            f"{algorithm['name']}, {trained['rounds']} rounds of {games} games planned;",
            f"mode {trained['mode']['name']}, updates {trained['updates']['strategy']},",
            f"{trained['models']['count']} models that learn, seed {trained['seed']}.",
        ]
    )
