"""Server optimizers (FedAvgM, FedAdam, DiLoCo): steps from the last common weights to the mean."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from srl_train.distributed import fsdp

SERVERS: Mapping[str, Callable[[Any, list[Parameter]], torch.optim.Optimizer]] = {
    "fedavgm": lambda own, parameters: torch.optim.SGD(
        parameters, lr=own.learning_rate, momentum=own.momentum
    ),
    "diloco": lambda own, parameters: torch.optim.SGD(
        parameters, lr=own.learning_rate, momentum=own.momentum, nesterov=True
    ),
    "fedadam": lambda own, parameters: torch.optim.Adam(
        parameters, lr=own.learning_rate, betas=(own.beta1, own.beta2), eps=own.tau
    ),
}
"""Name -> torch's optimizer of the weights, from the server's configuration section."""


def stepped(
    server: Any,
    common: Mapping[str, Tensor],
    mean: Mapping[str, Tensor],
    state: Mapping[str, Any] | None,
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """(the new common weights, the optimizer's new state) after one step of the server.

    common: the weights that all models took last; mean: of what they have made of them since, of
    the parameters that are averaged, the others stay as they are; server: a section of SERVERS;
    state: as it was given last, None at first. `common - mean` is taken as a gradient (Reddi et al.
    2021, alg. 1; Douillard et al. 2023, alg. 1), so that plain descent at a rate of 1 comes to the
    mean. Adam is torch's, which corrects the bias of its moments; Reddi et al. do not.
    """
    parameters = {name: Parameter(own.clone()) for name, own in common.items()}
    optimizer = SERVERS[server.name](server, list(parameters.values()))
    if state is not None:
        own = copy.deepcopy(dict(state))  # the step below changes tensors in place
        optimizer.load_state_dict(fsdp.optimizer_state_like(own, optimizer))
    for name, value in mean.items():
        parameters[name].grad = common[name] - value
    optimizer.step()
    return {name: own.detach() for name, own in parameters.items()}, optimizer.state_dict()
