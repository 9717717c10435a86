"""Publication of weights to model servers: saved, loaded, probed, switched, retired."""

from __future__ import annotations

import asyncio
import re
import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from peft import PeftModel, get_peft_model_state_dict
from safetensors.torch import save_file
from torch import Tensor
from torch.func import functional_call

from srl_agents.episode import ModelVersion
from srl_agents.errors import BackendError, ServerUnavailable
from srl_agents.llm.backends import background_loop
from srl_agents.llm.backends.huggingface.backend import evaluating
from srl_agents.llm.backends.vllm import VLLMBackend
from srl_agents.llm.sampling import Sampling
from srl_agents.serving.endpoint import Endpoint
from srl_train.learners.critics import CRITIC
from srl_train.learners.lora import ADAPTER
from srl_train.players.publisher import weights_digest

PROBES = 8
"""Beginnings of the probe after which a token is sampled."""
PROBING = Sampling(temperature=2.0, max_new_tokens=1)
"""Hot, so that unlikely tokens come too, whose log-probabilities tell weights apart. Those of a
whole prompt would tell more, and end vLLM's engine (0.31, on CPUs) beside requests for adapters."""
PAUSE = 0.2
"""Seconds between two looks for a server that is being restarted."""


class Servers(Protocol):
    """Running servers."""

    def endpoints(self, base: str) -> Sequence[Endpoint]:
        """Those of this base that take requests now."""
        ...


@dataclass(frozen=True)
class Publication:
    """Weights on disk that servers hold."""

    version: ModelVersion
    served_as: str
    """The name that requests ask for; of an adapter never used before and never again."""
    folder: Path
    expected: Tensor
    """The learner's own log-probabilities (K, vocabulary) of what comes after each probe."""


class ServedPublisher:
    """Publishes adapters to the servers of their base, and whole models each to its own.

    A new version is written to a folder, loaded by every server, and compared with the learner by
    the log-probabilities of a probe before it answers; versions before it are unloaded once nobody
    waits for them. What a server that was restarted held is loaded again by `reload`.
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
        of its architecture, a PeftModel where it is an adapter. `probe` are token ids, after whose
        beginnings a token each is sampled, and `tolerance` is the largest difference in their
        log-probabilities; `deadline` are the seconds that a publication may take, `keep` is how
        many past versions of a model stay loaded."""
        self._backends, self._servers, self._modules = backends, servers, modules
        self._folder = folder
        self._stop_ids = next(iter(backends.values())).chat.stop_ids
        self._probes = [list(probe[: len(probe) * (n + 1) // PROBES]) for n in range(PROBES)]
        self._tolerance, self._deadline, self._keep = tolerance, deadline, keep
        self._published: dict[str, list[Publication]] = {}
        self._held: dict[str, set[str]] = {}
        """Server -> the names, or the whole model's versions, that it holds of ours."""
        self._changing = asyncio.Lock()

    def publish(self, name: str, version: int | str, tensors: Mapping[str, Tensor]) -> ModelVersion:
        """See WeightPublisher. Raises BackendError where the servers' log-probabilities are not
        the learner's, and where no server takes the weights in time; the version before goes on
        answering then."""
        weights = {n: t.detach() for n, t in tensors.items() if not n.startswith(CRITIC)}
        digest = weights_digest(weights)
        current = self.current(name)
        if current and (current.version, current.digest) == (version, digest):
            return current
        adapter = name if self._is_adapter(name) else None
        made = ModelVersion(self._backends[name].name, version, adapter, digest)
        one = self._written(name, made, weights)
        background_loop.run(self._switch(name, one))
        return made

    def current(self, name: str) -> ModelVersion | None:
        """The version that answers for `name`; None where none was published."""
        own = self._published.get(name)
        return own[-1].version if own else None

    def roll_back(self, name: str) -> ModelVersion:
        """From now on the version before the newest answers. Raises BackendError without one."""
        own = self._published.get(name, [])
        if len(own) < 2:
            raise BackendError(f"{name} has no version to go back to: it was published once")
        background_loop.run(self._go_back(name))
        return self._published[name][-1].version

    async def reload(self, base: str, endpoint: Endpoint) -> None:
        """Bring to a server of the base that was away what it holds no more."""
        async with self._changing:
            self._held[endpoint.url] = set(await endpoint.models())
            for name, own in self._published.items():
                if self._backends[name].base == base:
                    for one in own if self._is_adapter(name) else own[-1:]:
                        await self._hold(endpoint, one)

    def close(self) -> None:
        """Unload what was published, where a server still runs, and remove its folders."""
        try:
            background_loop.run(self._unload_all())
        finally:
            self._published.clear()
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _unload_all(self) -> None:
        for name, own in self._published.items():
            for one in own:
                await self._forget(name, one)

    async def _switch(self, name: str, one: Publication) -> None:
        """Have every server hold it, let it answer, and retire what is too old."""
        own = self._published.setdefault(name, [])
        own.append(one)
        try:
            await self._let_answer(name, one)
        except BackendError:
            own.remove(one)
            await self._forget(name, one)
            raise
        while len(own) > self._keep + 1:
            await self._retire(name, own.pop(0))

    async def _go_back(self, name: str) -> None:
        own = self._published[name]
        newest = own.pop()
        await self._let_answer(name, own[-1])
        await self._retire(name, newest)

    async def _let_answer(self, name: str, one: Publication) -> None:
        backend, adapter = self._backends[name], one.version.adapter
        # An adapter's requests under way ask for the version before by its name. A whole model has
        # one version at a time: its requests end first, and new ones wait.
        async with nullcontext() if adapter else backend.paused():
            await self._spread(name, one)
            backend.serve(adapter, one.version, one.served_as)

    async def _spread(self, name: str, one: Publication) -> None:
        """Until every server that takes requests holds it; one that is down is left to `reload`."""
        latest = time.monotonic() + self._deadline
        while True:
            async with self._changing:
                there = self._servers.endpoints(self._backends[name].base)
                try:
                    for endpoint in there:
                        await self._hold(endpoint, one)
                except ServerUnavailable:
                    there = ()  # its supervisor restarts it
            if there:
                return
            if time.monotonic() > latest:
                raise BackendError(
                    f"{one.served_as}: no server took it within {self._deadline:g} s "
                    "(backend.deadline): see the servers' logs"
                )
            await asyncio.sleep(PAUSE)

    async def _hold(self, endpoint: Endpoint, one: Publication) -> None:
        """Have the server hold it, and compare what it says with the learner."""
        held = self._held.setdefault(endpoint.url, set())
        if one.folder.name in held:
            return
        if one.version.adapter is not None:
            await endpoint.load_adapter(one.served_as, one.folder)
        else:
            await endpoint.update_weights(one.folder)
            held.clear()  # a whole model takes the place of the one before
        held.add(one.folder.name)
        sampled = await endpoint.complete(
            one.served_as, self._probes, sampling=PROBING, max_tokens=1, stop_ids=self._stop_ids
        )
        apart = max(
            abs(said.logprobs[0] - float(expected[said.ids[0]]))
            for said, expected in zip(sampled, one.expected, strict=True)
        )
        if not apart <= self._tolerance:
            raise BackendError(
                f"{one.served_as} at {endpoint.url}: log-probabilities differ by {apart:.3g} from "
                f"the learner's, backend.probe_tolerance is {self._tolerance:g}: does the server "
                "hold the same base, in the same dtype?"
            )

    async def _retire(self, name: str, one: Publication) -> None:
        """Unload it once its requests under way have ended."""
        if self._is_adapter(name):
            await self._backends[name].drained(one.served_as)
        await self._forget(name, one)

    async def _forget(self, name: str, one: Publication) -> None:
        there = self._servers.endpoints(self._backends[name].base)
        for endpoint in there if self._is_adapter(name) else ():
            held = self._held.get(endpoint.url, set())
            if one.folder.name in held:
                held.discard(one.folder.name)
                # A server that is gone holds nothing any more.
                with suppress(ServerUnavailable):
                    await endpoint.unload_adapter(one.served_as)
        # Only now: a server looks for the folder of every name that it knows.
        shutil.rmtree(one.folder, ignore_errors=True)

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
        found = log_probs(module, weights, self._probes[-1], PROBING.temperature)
        return found[[len(probe) - 1 for probe in self._probes]].cpu()

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
