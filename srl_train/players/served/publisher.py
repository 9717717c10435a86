"""Publication of learners' weights to model servers: written to a folder, loaded, probed."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel, get_peft_model_state_dict
from safetensors.torch import save_file
from torch import Tensor
from torch.func import functional_call

from srl_agents.episode import ModelVersion
from srl_agents.llm.backends import background_loop
from srl_agents.llm.backends.huggingface.backend import evaluating
from srl_agents.llm.backends.vllm import VLLMBackend
from srl_agents.serving.endpoint import Endpoint
from srl_train.learners.critics import without_critic
from srl_train.learners.lora import ADAPTER
from srl_train.players.publisher import weights_digest
from srl_train.players.served.publications import PROBING, Publication, Publications, Servers


class ServedPublisher:
    """Publishes adapters to the servers of their base, and whole models each to its own.

    A new version is written to a folder, and compared with the learner before it answers
    (Publications). What a server that was restarted held is loaded again by `reload`.
    """

    def __init__(
        self,
        backends: Mapping[str, VLLMBackend],
        servers: Servers,
        modules: Mapping[str, Any],
        *,
        folder: Path,
        probe: Sequence[int],
        tolerance: float,
        deadline: float,
        keep: int,
    ) -> None:
        """`backends`, `modules`: model, pool or frozen model -> what samples for it, and a module
        of its architecture, a PeftModel where it is an adapter. The rest as for Publications."""
        self._backends, self._modules, self._folder = backends, modules, folder
        self._servers = Publications(
            backends, servers, probe=probe, tolerance=tolerance, deadline=deadline, keep=keep
        )

    def publish(self, name: str, version: int | str, tensors: Mapping[str, Tensor]) -> ModelVersion:
        """See WeightPublisher. Raises BackendError where the servers' log-probabilities are not
        the learner's, and where no server takes the weights in time; the version before goes on
        answering then."""
        weights = {n: t.detach() for n, t in without_critic(tensors).items()}
        digest = weights_digest(weights)
        current = self.current(name)
        if current and (current.version, current.digest) == (version, digest):
            return current
        adapter = name if self._is_adapter(name) else None
        made = ModelVersion(self._backends[name].name, version, adapter, digest)
        one = self._written(name, made, weights)
        background_loop.run(self._servers.publish(name, one))
        return made

    def current(self, name: str) -> ModelVersion | None:
        """The version that answers for `name`; None where none was published."""
        answering = self._servers.current(name)
        return answering.version if answering else None

    def roll_back(self, name: str) -> None:
        """From now on the version before the newest answers. Raises BackendError without one."""
        background_loop.run(self._servers.roll_back(name))

    async def reload(self, base: str, endpoint: Endpoint) -> None:
        """Bring to a server of the base that was away what it holds no more."""
        await self._servers.reload(base, endpoint)

    def close(self) -> None:
        """Unload what was published, where a server still runs, and remove its folders.

        Raises BackendError, with all else unloaded, where a server refuses.
        """
        background_loop.run(self._servers.unload())

    def _written(
        self, name: str, version: ModelVersion, weights: Mapping[str, Tensor]
    ) -> Publication:
        module = self._modules[name]
        unique = f"{_plain(name)}@{_plain(str(version.version))}.{secrets.token_hex(4)}"
        folder = self._folder / unique
        folder.mkdir(parents=True)
        if self._is_adapter(name):
            own = get_peft_model_state_dict(module, state_dict=dict(weights), adapter_name=ADAPTER)
            file = "adapter_model.safetensors"
            module.peft_config[ADAPTER].save_pretrained(str(folder))
        else:
            own, file = weights, "model.safetensors"
        save_file({n: t.cpu().contiguous() for n, t in own.items()}, folder / file)
        served_as = unique if self._is_adapter(name) else self._backends[name].base
        return Publication(version, served_as, folder, self._expected(module, weights))

    def _expected(self, module: Any, weights: Mapping[str, Tensor]) -> Tensor:
        found = log_probs(module, weights, self._servers.probes[-1], PROBING.temperature)
        return found[[len(probe) - 1 for probe in self._servers.probes]].cpu()

    def _is_adapter(self, name: str) -> bool:
        return isinstance(self._modules[name], PeftModel)


def log_probs(
    module: Any, weights: Mapping[str, Tensor], ids: Sequence[int], temperature: float = 1.0
) -> Tensor:
    """Log-probabilities (tokens, vocabulary) of what comes after each of `ids`, by `module` with
    these weights in place of its own."""
    device = next(module.parameters()).device
    tokens = torch.tensor([list(ids)], device=device)
    placed = {name: tensor.to(device) for name, tensor in weights.items()}
    with torch.no_grad(), evaluating(module):
        logits = functional_call(module, placed, (tokens,), {"use_cache": False}).logits
    found: Tensor = (logits[0].float() / temperature).log_softmax(-1)
    return found


def _plain(text: str) -> str:
    """The text as it may stand in names of files and of served models."""
    return re.sub(r"[^\w@.-]", "_", text)
