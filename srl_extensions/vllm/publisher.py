"""Publication of trained weights to model servers: write, load, probe, switch, unload."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel, get_peft_model_state_dict
from safetensors.torch import save_file
from torch import Tensor
from torch.func import functional_call

from srl_agents.episode import ModelVersion
from srl_agents.errors import BackendError, ServerUnavailable
from srl_agents.llm.backends import background_loop
from srl_agents.llm.backends.huggingface.backend import evaluating
from srl_agents.llm.sampling import Sampling
from srl_extensions.vllm.backend import VLLMBackend, check_vocabulary
from srl_extensions.vllm.client import VLLMClient
from srl_extensions.vllm.fleet import Fleet
from srl_extensions.vllm.routing import MAX_WAIT
from srl_train.learners.learner import model_weights
from srl_train.learners.lora import ADAPTER
from srl_train.publisher import WeightPublisher

PROBES = 8
"""Number of prefixes of the probe. The server samples one token after each."""
PROBING = Sampling(temperature=2.0, max_new_tokens=1)
"""A high temperature also samples unlikely tokens, whose log-probabilities distinguish weights.
With prompt_logprobs, requests for adapters would end the engine of vLLM 0.31 on CPUs."""
TOLERANCES = {"float32": 1e-3}
"""Data type -> largest difference between the log-probabilities of server and learner; 0.5 for
others."""
PAUSE = 0.2
"""Seconds between two attempts to reach a server that is being restarted."""
Write = Callable[[str, Mapping[str, Tensor], Sequence[Sequence[int]], Path], Tensor]
"""Function (name, weights, probes, folder) that writes the weights of a model, pool or frozen model
to an empty folder, and returns the learner's log-probabilities (PROBES, vocabulary) after each of
the probes."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Publication:
    """Version of weights in a folder, from which servers load this version."""

    version: ModelVersion
    served_as: str
    """Name in requests. The name of an adapter is never reused."""
    folder: Path
    expected: Tensor
    """Log-probabilities (PROBES, vocabulary) of the learner after each probe."""

    @property
    def is_whole(self) -> bool:
        """True for a whole model, which replaces its previous version on the server."""
        return self.version.adapter is None


class ServedPublisher(WeightPublisher):
    """Publisher of adapters to the servers of their base, or of whole models to their servers.

    Every server that is up loads a new version, and its log-probabilities are compared with the
    learner's. An adapter answers after this comparison only; a whole model is replaced at once.
    Adapters beyond `keep` are unloaded once they have no open requests. Servers that were down load
    the weights again.
    """

    def __init__(
        self,
        samplers: Mapping[str, VLLMBackend],
        fleet: Fleet,
        write: Write,
        *,
        folder: Path,
        probe: Sequence[int],
        dtype: str,
        adapters: bool = True,
        keep: int = 0,
    ) -> None:
        """Create a publisher for `samplers`, by name of a model, pool or frozen model.

        All are `adapters` of one base, or all are whole models. `write` is described at Write.
        Publications are subfolders of `folder`. Log-probabilities are compared after prefixes of
        `probe` (8 token ids or more), with a tolerance for `dtype`. `keep` past versions of each
        adapter stay loaded.
        """
        self.fleet, self.folder = fleet, folder
        self.answering: dict[str, Publication] = {}
        """Name -> version that new requests are answered from."""
        self._samplers, self._write, self._adapters = samplers, write, adapters
        self._keep = keep
        self._probes = [list(probe[: len(probe) * (n + 1) // PROBES]) for n in range(PROBES)]
        self._tolerance = TOLERANCES.get(dtype, 0.5)
        self._versions: dict[str, list[Publication]] = {}
        """Name -> versions to hold; the last may not answer yet."""
        self._changing = asyncio.Lock()
        fleet.on_up(self._reload)

    def publish(self, name: str, version: int | str, tensors: Mapping[str, Tensor]) -> None:
        """Write and publish weights, unless this version of `name` is current.

        Waits until new requests use the weights, and adapters beyond `keep` are unloaded.

        Raises:
            BackendError: If a server refuses the weights, log-probabilities differ, or no server
                loads the weights within 600 seconds. An adapter's previous version continues to
                answer; a whole model's may be replaced.
            ServingError: If a server failed too often (`Fleet.check`).
        """
        weights = {n: t.detach() for n, t in model_weights(tensors).items()}
        adapter, sampler = name if self._adapters else None, self._samplers[name]
        new = ModelVersion(sampler.name, version, adapter)
        if self.current(name) == new:
            return
        # Served names and files allow few characters.
        plain = re.sub(r"[^\w@.-]", "_", f"{name}@{version}")
        unique = f"{plain}.{secrets.token_hex(4)}"
        folder = self.folder / unique
        folder.mkdir(parents=True)
        expected = self._write(name, weights, self._probes, folder)
        served_as = unique if self._adapters else sampler.base
        background_loop.run(self._publish(name, Publication(new, served_as, folder, expected)))

    def current(self, name: str) -> ModelVersion | None:
        """Return the version that answers new requests of `name`; None if none was published."""
        return self.answering[name].version if name in self.answering else None

    def close(self) -> None:
        """Unload all adapters, log failures, and remove all publications' folders."""
        background_loop.run(self._close())

    async def _close(self) -> None:
        versions, self._versions = self._versions, {}
        self.answering.clear()
        for name, held in versions.items():
            for one in held:
                await self._forget(name, one)

    async def _publish(self, name: str, new: Publication) -> None:
        held, sampler = self._versions.setdefault(name, []), self._samplers[name]
        held.append(new)
        try:
            await self._load_everywhere(name, new)
        except BackendError:
            held.remove(new)
            await self._forget(name, new)
            raise
        sampler.serve(new.version.adapter, new.version, new.served_as)
        self.answering[name] = new
        while len(held) > self._keep + 1:
            old = held.pop(0)
            if not old.is_whole:
                await sampler.drained(old.served_as)
            await self._forget(name, old)

    async def _reload(self, base: str, client: VLLMClient) -> None:
        async with self._changing:
            for name, held in self._versions.items():
                if self._samplers[name].base == base and held:
                    # A whole model changes after its open requests have ended.
                    newest = self.answering.get(name, held[-1])
                    for one in [newest] if newest.is_whole else held:
                        await self._load(name, client, one)

    async def _load_everywhere(self, name: str, new: Publication) -> None:
        latest = time.monotonic() + MAX_WAIT
        while True:
            async with self._changing:
                clients = self.fleet.clients(self._samplers[name].base)
                try:
                    for client in clients:
                        await self._load(name, client, new)
                except ServerUnavailable:
                    clients = []  # The fleet restarts the server.
            if clients:
                return
            self.fleet.check()
            if time.monotonic() > latest:
                raise BackendError(
                    f"{new.served_as}: no server loaded it within {MAX_WAIT:g} s: see the logs"
                )
            await asyncio.sleep(PAUSE)

    async def _load(self, name: str, client: VLLMClient, new: Publication) -> None:
        if new.is_whole:
            await client.update_weights(new.folder)
        elif new.served_as not in await client.models():
            await client.load_adapter(new.served_as, new.folder)
        sampled = await client.complete(
            new.served_as,
            self._probes,
            sampling=PROBING,
            max_tokens=1,
            stop_ids=self._samplers[name].stop_ids,
        )
        for one in sampled:
            check_vocabulary(one, new.expected.shape[1], new.served_as)
        difference = max(
            abs(one.logprobs[0] - float(expected[one.ids[0]]))
            for one, expected in zip(sampled, new.expected, strict=True)
        )
        if not difference <= self._tolerance:
            raise BackendError(
                f"{new.served_as} at {client.url}: log-probabilities differ by {difference:.3g} "
                f"from the learner's; allowed: {self._tolerance:g}. Does the server hold the same "
                "base in the same dtype, with --logprobs-mode processed_logprobs?"
            )

    async def _forget(self, name: str, old: Publication) -> None:
        clients = [] if old.is_whole else self.fleet.clients(self._samplers[name].base)
        for client in clients:
            try:
                if old.served_as in await client.models():
                    await client.unload_adapter(old.served_as)
            except BackendError as error:  # The server has ended.
                log.warning("%s was not unloaded: %s", old.served_as, error)
        # The folder must outlive the name: a server may read an evicted adapter again.
        shutil.rmtree(old.folder, ignore_errors=True)


def write_weights(
    module: Any, weights: Mapping[str, Tensor], probes: Sequence[Sequence[int]], folder: Path
) -> Tensor:
    """Write weights, and an adapter's configuration, to an empty folder in the servers' format.

    `module` has the same parameters as `weights`: a PeftModel for an adapter. Each of the `probes`
    (token ids) is a prefix of the last one. Returns the log-probabilities (len(probes), vocabulary)
    after each probe with these weights, at temperature 2.
    """
    if isinstance(module, PeftModel):
        saved = get_peft_model_state_dict(
            module, state_dict=dict(weights), adapter_name=ADAPTER, save_embedding_layers=False
        )
        file = "adapter_model.safetensors"
        module.peft_config[ADAPTER].save_pretrained(str(folder))
    else:
        saved, file = weights, "model.safetensors"
    save_file({n: t.cpu().contiguous() for n, t in saved.items()}, folder / file)
    device = next(module.parameters()).device
    tokens = torch.tensor([list(probes[-1])], device=device)
    placed = {name: tensor.to(device) for name, tensor in weights.items()}
    with torch.no_grad(), evaluating(module):
        logits = functional_call(module, placed, (tokens,), {"use_cache": False}).logits
    found: Tensor = (logits[0].float() / PROBING.temperature).log_softmax(-1)
    return found[[len(probe) - 1 for probe in probes]].cpu()
