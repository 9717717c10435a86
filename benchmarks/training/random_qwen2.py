"""Writes a randomly initialised Qwen2 with the embedded model's tokenizer into a folder.

Arguments: folder, layers, width, settings of the game as JSON. Prints its name and folder as JSON.
adapter_memory starts it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

from srl_agents.llm import tiny
from srl_train.config import yaml_file
from srl_train.config.run import RunConfig
from srl_train.engine.environment import environment_maker

HEAD = 64  # width of an attention head


def write(folder: Path, layers: int, hidden: int, config: RunConfig) -> int:
    """Write the model for this game's words and return its number of parameters."""
    tokenizer = AutoTokenizer.from_pretrained(tiny.folder(environment_maker(config)))
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(tokenizer),
            hidden_size=hidden,
            intermediate_size=hidden * 8 // 3,
            num_hidden_layers=layers,
            num_attention_heads=hidden // HEAD,
            num_key_value_heads=max(1, hidden // HEAD // 4),
            max_position_embeddings=4096,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return sum(parameter.numel() for parameter in model.parameters())


def main(arguments: Sequence[str]) -> int:
    """Write and print."""
    folder, layers, hidden, settings = arguments
    config = yaml_file.from_tree({}, json.loads(settings))
    count = write(Path(folder), int(layers), int(hidden), config)
    print(json.dumps({"name": f"Qwen2 {count / 1e6:.0f}M", "folder": folder}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
