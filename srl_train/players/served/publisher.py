"""Publication of learners' weights to model servers: written to a folder, loaded, probed."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
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
from srl_agents.serving.endpoint import Endpoint
from srl_train.learners.critics import without_critic
from srl_train.learners.lora import ADAPTER
from srl_train.players.publisher import weights_digest
from srl_train.players.served.publications import PROBING, Publication, Publications

Write = Callable[[str, Mapping[str, Tensor], Path], Tensor]
"""Writes the weights of a model, pool or frozen model into an empty folder, as servers load them;
gives the learner's own log-probabilities (K, vocabulary) of what comes after each probe."""


class ServedPublisher:
    """Publishes adapters to the servers of their base, and whole models each to its own.

    A new version is written to a folder, and compared with the learner before it answers
    (Publications). What a server that was restarted held is loaded again by `reload`.
    """

    def __init__(
        self, publications: Publications, write: Write, *, folder: Path, adapters: bool
    ) -> None:
        """`folder` is where publications are written, each into a folder of its own; `adapters`
        where they are adapters of one base."""
        self._servers, self._write = publications, write
        self._folder, self._adapters = folder, adapters

    def publish(self, name: str, version: int | str, tensors: Mapping[str, Tensor]) -> None:
        """See WeightPublisher. Raises BackendError where the servers' log-probabilities are not
        the learner's, and where no server takes the weights in time; the version before goes on
        answering then."""
        weights = {n: t.detach() for n, t in without_critic(tensors).items()}
        digest = weights_digest(weights)
        current = self.current(name)
        if current and (current.version, current.digest) == (version, digest):
            return
        adapter = name if self._adapters else None
        made = ModelVersion(self._servers.backends[name].name, version, adapter, digest)
        background_loop.run(self._servers.publish(name, self._written(name, made, weights)))

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
        unique = f"{_plain(name)}@{_plain(str(version.version))}.{secrets.token_hex(4)}"
        folder = self._folder / unique
        folder.mkdir(parents=True)
        expected = self._write(name, weights, folder)
        served_as = unique if self._adapters else self._servers.backends[name].base
        return Publication(version, served_as, folder, expected)


def write_weights(
    module: Any, weights: Mapping[str, Tensor], probes: Sequence[Sequence[int]], folder: Path
) -> Tensor:
    """Write weights of a module, a PeftModel where they are an adapter, as servers load them; gives
    its log-probabilities (K, vocabulary) with them of what comes after each of `probes`, which are
    beginnings of the last one."""
    if isinstance(module, PeftModel):
        own = get_peft_model_state_dict(
            module, state_dict=dict(weights), adapter_name=ADAPTER, save_embedding_layers=False
        )
        file = "adapter_model.safetensors"
        module.peft_config[ADAPTER].save_pretrained(str(folder))
    else:
        own, file = weights, "model.safetensors"
    save_file({n: t.cpu().contiguous() for n, t in own.items()}, folder / file)
    device = next(module.parameters()).device
    tokens = torch.tensor([list(probes[-1])], device=device)
    placed = {name: tensor.to(device) for name, tensor in weights.items()}
    with torch.no_grad(), evaluating(module):
        logits = functional_call(module, placed, (tokens,), {"use_cache": False}).logits
    found: Tensor = (logits[0].float() / PROBING.temperature).log_softmax(-1)
    return found[[len(probe) - 1 for probe in probes]].cpu()


def _plain(text: str) -> str:
    """The text as it may stand in names of files and of served models."""
    return re.sub(r"[^\w@.-]", "_", text)
