"""Memory needs of a model that is to be served, from its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from srl_agents.errors import PlacementError
from srl_agents.serving.placement import GIB, ModelNeeds
from srl_envs.loading.untrusted import read_bytes, read_json

BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}  # of one number


def needs_of(
    folder: Path,
    *,
    name: str,
    dtype: str = "auto",
    context: int | None = None,
    adapter_slots: int = 0,
    rank: int = 16,
    replicas: int = 1,
) -> ModelNeeds:
    """What serving the model of a folder takes; `context` None is the model's own.

    Weights are as large as their files, or what `dtype` makes of them; an adapter slot holds both
    matrices of `rank` for every linear layer of the blocks.

    Raises PlacementError where the folder holds no weights, or a configuration without the sizes
    of a transformer.
    """
    files = list(folder.glob("*.safetensors")) or list(folder.glob("pytorch_model*.bin"))
    if not files:
        raise PlacementError(
            f"{folder} holds no weights (*.safetensors): give a model's folder, for one of "
            "the hub where it was downloaded to"
        )
    try:
        config = read_json(read_bytes(folder / "config.json"))
        config = config.get("text_config", config)
        layers, width = _whole(config, "num_hidden_layers"), _whole(config, "hidden_size")
        inner = _whole(config, "intermediate_size")
        heads = _whole(config, "num_attention_heads")
        key_value_heads = _whole(config, "num_key_value_heads", heads)
        head = _whole(config, "head_dim", width // heads)
        longest = _whole(config, "max_position_embeddings", context)
        stored = str(config.get("dtype") or config.get("torch_dtype") or "float32")
        size = BYTES[stored if dtype == "auto" else dtype]
        scale = 1.0 if "quantization_config" in config else size / BYTES[stored]
    except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise PlacementError(
            f"{folder / 'config.json'} does not tell the model's sizes: {error!r}"
        ) from error
    asked, answered = heads * head, key_value_heads * head
    # q o, k v, gate up down
    ends = 2 * (width + asked) + 2 * (width + answered) + 3 * (width + inner)
    return ModelNeeds(
        name=name,
        weights_gib=scale * sum(file.stat().st_size for file in files) / GIB,
        context=context or longest,
        token_bytes=2 * layers * answered * size,
        heads=heads,
        key_value_heads=key_value_heads,
        adapter_slots=adapter_slots,
        adapter_gib=layers * rank * ends * size / GIB,
        replicas=replicas,
    )


def _whole(config: Any, key: str, default: int | None = None) -> int:
    value = config.get(key)
    value = default if value is None else value
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{key} is {value!r}")
    return value
