"""Worker extension for vLLM that takes new weights of the whole model from a folder.

Called over /collective_rpc, which needs VLLM_SERVER_DEV_MODE=1. vLLM's own reload leaves a tied
output layer as it was on CPUs, because that layer computes with a packed copy of the embedding.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open


class WeightUpdate:
    """vLLM: `--worker-extension-cls weight_update.WeightUpdate`; becomes a base of its worker."""

    def publish_weights(self: Any, folder: str) -> dict[str, Any]:
        """Load the safetensors files of `folder`; returns how many tensors there were.

        To be called while generation is paused; the prefix cache is to be reset afterwards.
        """
        files = sorted(Path(folder).glob("*.safetensors"))
        if not files:
            raise FileNotFoundError(f"no *.safetensors in {folder}")
        names: list[str] = []
        self.reload_weights(weights_iterator=_tensors(files, names))
        repacked = _repack(self.model_runner.get_model())
        return {"tensors": len(names), "repacked": repacked}


def _tensors(files: list[Path], names: list[str]) -> Iterator[tuple[str, torch.Tensor]]:
    for path in files:
        with safe_open(str(path), framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 - it is no mapping
                names.append(name)
                yield name, file.get_tensor(name)


def _repack(model: Any) -> int:
    """Pack anew what computes with a packed copy of a weight that is also kept as it is."""
    packed = [m for m in model.modules() if hasattr(m, "cpu_linear") and m.weight.numel()]
    if packed:
        from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

        for module in packed:
            dispatch_cpu_unquantized_gemm(module, remove_weight=False)
    return len(packed)
