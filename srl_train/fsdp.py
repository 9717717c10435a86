"""FSDP: parameters, gradients and optimizer state sharded over all processes.

torch's `fully_shard` (FSDP2) on every decoder layer and on the whole model, because accelerate's
FSDP settings silently run DDP on a CPU. Each parameter becomes a DTensor with a slice per process.
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
    """Shard a PreTrainedModel, equal in all processes, over them in place; errors contain `name`.

    Raises:
        TrainingError: If the decoder layers are unknown, or a parameter was not sharded.
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
    """Return True if `shard` has sharded the model or module."""
    return isinstance(model, FSDPModule)


def reshard_all(model: Any) -> None:
    """Free the unsharded weights of a sharded model's last forward pass; else do nothing."""
    if is_sharded(model):
        for module in model.modules():
            if is_sharded(module):
                module.reshard()


def full(tensor: Tensor) -> Tensor:
    """Return the whole tensor of a shard (in a call by all processes), or `tensor` itself."""
    if not isinstance(tensor, DTensor):
        return tensor
    return tensor.full_tensor().clone()  # the result may still be in flight


def in_full(value: Any) -> Any:
    """Return nested mappings, lists and tuples with whole tensors instead of shards.

    All processes must call this. Only the main process receives the whole tensors, on the CPU;
    others receive empty tensors.
    """

    def whole(entry: Any) -> Any:
        if not isinstance(entry, DTensor):
            return entry
        found = full(entry.detach())
        return found.cpu() if processes.is_main() else found.new_empty(0)

    return mapped(value, whole)


def like(value: Tensor, parameter: Tensor) -> Tensor:
    """Return `value`, a whole tensor that is equal in all processes, sharded like `parameter`.

    All processes must call this. The result is `value` itself if it is sharded or `parameter` is
    not.
    """
    if not isinstance(parameter, DTensor) or isinstance(value, DTensor):
        return value
    return distribute_tensor(
        value.to(parameter.device), parameter.device_mesh, parameter.placements
    )


def optimizer_state_like(state: Mapping[str, Any], optimizer: Any) -> dict[str, Any]:
    """Return an optimizer's state_dict, with tensors of parameters' shapes sharded like these.

    All processes must call this, with equal whole tensors in `state`.
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
    """Return all parameters and buffers of a sharded model as whole tensors, tied weights once.

    All processes must call this function. Only the main process receives the values of sharded
    tensors, on the CPU; others receive empty tensors.
    """
    reshard_all(model)
    parameters = dict(model.named_parameters())
    names = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    buffers = {name: t for name, t in model.state_dict().items() if name not in names}
    found: dict[str, Tensor] = in_full({**parameters, **buffers})
    return found
