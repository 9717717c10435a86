"""Quantization to 4 or 8 bits by bitsandbytes, and checks of what it loaded.

What a quantised model computes depends on its input alone: not on who shares the batch, and not
on whether it is being trained. bitsandbytes' own layers part from that in two places, which are
set right after loading (`made_steady`).
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import BitsAndBytesConfig

from srl_envs.loading import needed_by

Quantization = Literal["nf4", "int8"]

# It announces that a faster kernel was not found, which is not used here in any case.
logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)


def loading(quantization: Quantization, device: str) -> dict[str, Any]:
    """The arguments of `from_pretrained` that load onto `device` in 4 or 8 bits.

    'nf4': four bits per weight with doubly quantised scales, as in QLoRA (Dettmers et al. 2023).
    'int8': eight bits, scaled by row as in LLM.int8() (Dettmers et al. 2022). Embeddings, norms
    and the output layer keep their type. Raises ImportError where bitsandbytes is missing.
    """
    _bitsandbytes()
    config = (
        BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True
        )
        if quantization == "nf4"
        else BitsAndBytesConfig(load_in_8bit=True)
    )
    place: Any = torch.cuda.current_device() if device == "cuda" else device
    return {"quantization_config": config, "device_map": {"": place}}


def made_steady(model: Any) -> Any:
    """The model as it was loaded, with quantised layers that compute in the model's own type and
    give the same whatever else is in the batch, in training as in evaluation."""
    bnb = _bitsandbytes()
    for module in model.modules():
        if isinstance(module, bnb.nn.Linear4bit):
            module.compute_dtype, module.compute_type_is_set = model.dtype, True
            # On CPUs with AVX512-BF16 the first evaluation would repack the weights, round their
            # scales, and leave a layer through which no gradient flows.
            module.support_avx512bf16_for_cpu = False
        elif isinstance(module, bnb.nn.Linear8bitLt):
            module.init_8bit_state()  # else by the first forward pass of whoever shares the weight
            module.__class__ = _weight_only_8bit()
    return model


def shared_states(model: Any) -> Iterator[Any]:
    """What quantised layers hold beside parameters and buffers: scales, and what finds them."""
    for module in model.modules():
        for name in ("quant_state", "state"):
            state = getattr(module, name, None)
            if type(state).__module__.partition(".")[0] == "bitsandbytes":
                yield state


@functools.cache
def _weight_only_8bit() -> type:
    """Linear8bitLt with the arithmetic that it uses itself when it trains on a CPU.

    Elsewhere it rounds activations too, and tells outliers among them by the whole batch: one
    row's answer would then depend on the others.
    """
    bnb = _bitsandbytes()
    from bitsandbytes.autograd._functions import MatMul8bitFp

    class WeightOnly8bit(bnb.nn.Linear8bitLt):  # type: ignore[misc, name-defined]
        """Eight-bit weights, brought to the input's type for each product."""

        def forward(self, x: Tensor) -> Tensor:
            """x (..., in) -> (..., out)."""
            bias = None if self.bias is None else self.bias.to(x.dtype)
            product: Tensor = MatMul8bitFp.apply(x, self.weight, None, bias, self.state)
            return product

    return WeightOnly8bit


def _bitsandbytes() -> Any:
    with needed_by("a quantised model"):
        import bitsandbytes
    return bitsandbytes
