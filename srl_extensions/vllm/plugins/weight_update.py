"""Worker extension for vLLM that takes new weights of the whole model from a folder.

Called by /collective_rpc, which requires VLLM_SERVER_DEV_MODE=1. On CPUs, vLLM's own reload does
not update a tied output layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open


class WeightUpdate:
    """Base class that vLLM adds to its worker (`--worker-extension-cls`), to replace weights."""

    def publish_weights(self: Any, folder: str) -> None:
        """Load the safetensors files of `folder` into the model; raise FileNotFoundError for none.

        Call this while generation is paused, and reset the prefix cache afterwards.
        """
        files = sorted(Path(folder).glob("*.safetensors"))
        if not files:
            raise FileNotFoundError(f"no *.safetensors in {folder}")
        self.reload_weights(weights_iterator=_tensors(files))
        for module in self.model_runner.get_model().modules():
            # A tied output layer computes with a packed copy of the embedding.
            if hasattr(module, "cpu_linear") and module.weight.numel():
                from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

                dispatch_cpu_unquantized_gemm(module, remove_weight=False)


def _tensors(files: list[Path]) -> Iterator[tuple[str, torch.Tensor]]:
    for path in files:
        with safe_open(str(path), framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 - the file is not a mapping
                yield name, file.get_tensor(name)
