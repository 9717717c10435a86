"""FSDP: parameters, gradients and optimizer state sharded over all processes.

torch's own `fully_shard` (FSDP2; Zhao et al. 2023 describe the idea) on every decoder layer and on
the whole, applied here: accelerate's FSDP settings run DDP on a CPU without a word. Each parameter
becomes a DTensor whose rows are dealt to the processes; a layer is whole only while it computes.
Elementwise work goes on as before on the slices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from srl_train import processes
from srl_train.checkpoints import mapped
from srl_train.errors import TrainingError


def shard(name: str, model: Any) -> None:
    """Slice a PreTrainedModel over all processes, in place: layer by layer, and what is left.

    Its weights must be the same in all of them. Raises TrainingError where a parameter was not
    sliced, and for a model whose decoder layers cannot be found.
    """
    layers = _layers(name, model)
    mesh = init_device_mesh(next(model.parameters()).device.type, (processes.count(),))
    for layer in layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    for module in (*layers, model):
        # What a layer is put together in is made at its first use. In a rollout that would be
        # under inference_mode, and could never be trained with.
        module.unshard()
        module.reshard()
    for parameter_name, parameter in model.named_parameters():
        if not (isinstance(parameter, DTensor) and parameter.placements == (Shard(0),)):
            raise TrainingError(
                f"{name}: fsdp left {parameter_name} whole on every process: use ddp for it"
            )


def is_sharded(model: Any) -> bool:
    """Whether the model's parameters lie in slices."""
    return isinstance(model, FSDPModule)


def let_go(model: Any) -> None:
    """Forget what a sliced model's last pass forward put together: its weights may change."""
    if is_sharded(model):
        for module in model.modules():
            if is_sharded(module):
                module.reshard()


def full(tensor: Tensor) -> Tensor:
    """The whole tensor; of slices, all processes must ask for it together."""
    if not isinstance(tensor, DTensor):
        return tensor
    return tensor.full_tensor().clone()  # until it is used, it may still be on its way


def in_full(value: Any) -> Any:
    """Nested mappings, lists and plain tuples with whole tensors in place of slices.

    Collective. Only the main process, which writes them, keeps the whole ones, on the CPU; the
    others get empty tensors in their places.
    """

    def whole(entry: Any) -> Any:
        if not isinstance(entry, DTensor):
            return entry
        found = full(entry.detach())
        return found.cpu() if processes.is_main() else found.new_empty(0)

    return mapped(value, whole)


def like(value: Tensor, parameter: Tensor) -> Tensor:
    """A whole tensor, the same in all processes, sliced as `parameter` is; collective."""
    if not isinstance(parameter, DTensor) or isinstance(value, DTensor):
        return value
    return distribute_tensor(
        value.to(parameter.device), parameter.device_mesh, parameter.placements
    )


def optimizer_state_like(state: Mapping[str, Any], optimizer: Any) -> dict[str, Any]:
    """An optimizer's state_dict of whole tensors, sliced as its parameters are; collective."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    return {
        **state,
        "state": {
            place: {
                name: like(entry, parameters[int(place)])
                if isinstance(entry, Tensor) and entry.shape == parameters[int(place)].shape
                else entry
                for name, entry in own.items()
            }
            for place, own in state["state"].items()
        },
    }


def whole_state_dict(model: Any) -> dict[str, Tensor]:
    """Name -> whole tensor of a sliced model, tied weights once; see `in_full`."""
    let_go(model)
    parameters = dict(model.named_parameters())
    names = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    buffers = {name: t for name, t in model.state_dict().items() if name not in names}
    found: dict[str, Tensor] = in_full({**parameters, **buffers})
    return found


def _layers(name: str, model: Any) -> list[torch.nn.Module]:
    """The decoder layers: what the model itself says must not be split."""
    kinds = set(getattr(model, "_no_split_modules", None) or ())
    layers = [module for module in model.modules() if type(module).__name__ in kinds]
    if not layers:
        raise TrainingError(
            f"{name}: {type(model).__name__} does not name its layers (_no_split_modules): fsdp "
            "cannot slice it, use ddp"
        )
    return layers
