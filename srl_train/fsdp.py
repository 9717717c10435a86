"""FSDP: parameters, gradients and optimizer state sharded over all processes.

torch's `fully_shard` (FSDP2), because accelerate's FSDP settings silently run DDP on a CPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from srl_train import processes
from srl_train.errors import TrainingError
from srl_train.tensor_checks import mapped


def shard(name: str, model: Any) -> None:
    """Shard the PreTrainedModel `model`, equal in all processes, over them in place.

    All processes must call this. Raises TrainingError, which begins with `name`, if the model does
    not name its decoder layers, or a parameter was not sharded.
    """
    kinds = set(getattr(model, "_no_split_modules", None) or ())
    layers = [module for module in model.modules() if type(module).__name__ in kinds]
    if not layers:
        raise TrainingError(
            f"{name}: {type(model).__name__} does not name its layers (_no_split_modules), so fsdp "
            "cannot shard it; use ddp"
        )
    mesh = init_device_mesh(next(model.parameters()).device.type, (processes.count(),))
    for layer in layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    for module in (*layers, model):
        # Buffers are allocated at first use, and buffers from inference_mode cannot be trained.
        module.unshard()
        module.reshard()
    for parameter_name, parameter in model.named_parameters():
        if not (isinstance(parameter, DTensor) and parameter.placements == (Shard(0),)):
            raise TrainingError(f"{name}: fsdp did not shard {parameter_name}; use ddp")


def is_sharded(model: Any) -> bool:
    """Return True for a model that `shard` has sharded, or one of its decoder layers."""
    return isinstance(model, FSDPModule)


def reshard_all(model: Any) -> None:
    """Free the whole weights that a forward pass of a sharded model left; else do nothing."""
    if is_sharded(model):
        for module in model.modules():
            if is_sharded(module):
                module.reshard()


def full(tensor: Tensor) -> Tensor:
    """Return a copy of the whole tensor if `tensor` is sharded, else `tensor` itself.

    All processes must call this.
    """
    if not isinstance(tensor, DTensor):
        return tensor
    return tensor.full_tensor().clone()  # the result may still be in flight


def in_full(value: Any) -> Any:
    """Return a copy of nested mappings, lists and tuples with whole instead of sharded tensors.

    All processes must call this. Only the main process receives the whole tensors, on the CPU; the
    others receive empty tensors. Other values, ordinary tensors included, are unchanged.
    """

    def whole(entry: Any) -> Any:
        if not isinstance(entry, DTensor):
            return entry
        found = full(entry.detach())
        return found.cpu() if processes.is_main() else found.new_empty(0)

    return mapped(value, whole)


def like(value: Tensor, parameter: Tensor) -> Tensor:
    """Return `value`, a whole tensor that is equal in all processes, sharded like `parameter`.

    All processes must call this. If `parameter` is not sharded, or `value` already is, the result
    is `value` itself.
    """
    if not isinstance(parameter, DTensor) or isinstance(value, DTensor):
        return value
    return distribute_tensor(
        value.to(parameter.device), parameter.device_mesh, parameter.placements
    )


def optimizer_state_like(state: Mapping[str, Any], optimizer: Any) -> dict[str, Any]:
    """Return a copy of the optimizer's state_dict `state` that the sharded `optimizer` can load.

    `state` has whole tensors, equal in all processes, which must all call this.
    """
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    return {
        **state,
        "state": {
            place: {
                name: like(entry, parameters[int(place)])
                if isinstance(entry, Tensor) and entry.shape == parameters[int(place)].shape
                else entry
                for name, entry in entries.items()
            }
            for place, entries in state["state"].items()
        },
    }


def whole_state_dict(model: Any) -> dict[str, Tensor]:
    """Return name -> whole tensor, for all parameters (tied ones once) and saved buffers.

    All processes must call this function for a sharded `model`. Only the main process receives the
    sharded tensors, on the CPU; the others receive empty tensors instead.
    """
    reshard_all(model)
    parameters = dict(model.named_parameters())
    names = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    buffers = {name: t for name, t in model.state_dict().items() if name not in names}
    found: dict[str, Tensor] = in_full({**parameters, **buffers})
    return found
