"""LoRA adapters averaged exactly: of A and B, one is trained between two means, the other shared.

The mean of the products B_i A_i is (mean of B_i) A where all models share A, and B (mean of A_i)
where they share B: exact at the adapters' own rank, whatever the number of models. Training B and A
in turns is RoLoRA (Chen et al. 2025); never training A is FFA-LoRA (Sun et al. 2024).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from srl_train.errors import UpdateError
from srl_train.updates.strategy import Parameters

FACTORS = ("lora_B", "lora_A")
"""In the order in which they are trained: B begins at 0, and while it is 0, A has no gradient."""


def held_factor(means: int) -> str:
    """The factor that all models share after so many means, until the next one."""
    return FACTORS[(means + 1) % 2]


def without(tensors: Mapping[str, Tensor], factor: str) -> dict[str, Tensor]:
    """The tensors but those of the factor, by PEFT's names of parameters."""
    return {name: own for name, own in tensors.items() if f".{factor}." not in name}


def check_adapters(parameters: Parameters) -> None:
    """Raise UpdateError for a model without adapters."""
    for model, own in parameters.items():
        if not any(f".{factor}." in name for name in own for factor in FACTORS):
            raise UpdateError(
                f"{model} has no LoRA adapter whose factors could be trained in turns: give "
                "models.adapters, or average factors"
            )


def check_shared(members: Mapping[str, Mapping[str, Tensor]], factor: str) -> None:
    """Raise UpdateError unless the factor is the same in all members, to the bit."""
    first = min(members)
    for model, own in members.items():
        for name, tensor in own.items():
            if f".{factor}." in name and not torch.equal(tensor, members[first][name]):
                raise UpdateError(
                    f"{first} and {model} do not begin with the same {name!r}, and only adapters "
                    "that share a factor can be averaged exactly: begin with the same adapter, or "
                    "average factors (updates.adapters)"
                )
