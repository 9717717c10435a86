"""Publications that model servers hold: loaded, probed, switched, retired, loaded again."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from torch import Tensor

from srl_agents.episode import ModelVersion
from srl_agents.errors import BackendError, ServerUnavailable
from srl_agents.llm.backends.vllm import check_vocabulary
from srl_agents.llm.sampling import Sampling
from srl_agents.serving.endpoint import Endpoint
from srl_agents.serving.fleet import Fleet

PROBES = 8
"""Beginnings of the probe after which a token is sampled."""
PROBING = Sampling(temperature=2.0, max_new_tokens=1)
"""Hot, so that unlikely tokens come too, whose log-probabilities tell weights apart. Those of a
whole prompt would tell more, and end vLLM's engine (0.31, on CPUs) beside requests for adapters."""
TOLERANCES = {"float32": 1e-3}
"""Data type -> how far a server's log-probabilities may be from the module's own."""
OTHER_TOLERANCE = 0.5
"""Of types with fewer digits."""
PAUSE = 0.2
"""Seconds between two looks for a server that is being restarted."""


class Answering(Protocol):
    """Whoever asks servers for completions of what was published; see VLLMBackend."""

    name: str
    """The base's, as records show it."""
    base: str
    """What servers call it."""
    stop_ids: frozenset[int]
    """What ends an answer."""

    def serve(self, adapter: str | None, version: ModelVersion, served_as: str) -> None:
        """From now on `adapter` (None: the base) means this version."""
        ...

    def withdraw(self, adapter: str | None) -> None:
        """From now on nobody answers for `adapter`, until it is served again."""
        ...

    async def drained(self, served_as: str) -> None:
        """Wait until no request under that served name is under way any more."""
        ...

    def paused(self) -> AbstractAsyncContextManager[None]:
        """Within, no request is under way."""
        ...


@dataclass(frozen=True)
class Publication:
    """Weights on disk that servers hold."""

    version: ModelVersion
    served_as: str
    """The name that requests ask for; of an adapter never used before and never again."""
    folder: Path
    expected: Tensor | None
    """The module's own log-probabilities (K, vocabulary) of what comes after each probe; None where
    there is no module, and nothing to compare the servers with."""


class Publications:
    """What servers hold by name: versions of adapters in every server of their base, and of whole
    models each in its own.

    A new version is loaded by every server and compared with the module it comes from before it
    answers; versions before it are unloaded once nobody waits for them. All of it runs in the
    background loop, and one version of a name is published after another.
    """

    def __init__(
        self,
        backends: Mapping[str, Answering],
        servers: Fleet,
        *,
        probe: Sequence[int],
        tolerance: float,
        deadline: float,
        keep: int,
    ) -> None:
        """`backends`: name -> what samples for it. `probe` are token ids, after whose beginnings a
        token each is sampled, and `tolerance` is the largest difference in their log-probabilities;
        `deadline` are the seconds that a publication may take, `keep` is how many past versions of
        a name stay loaded."""
        self.backends, self._servers = backends, servers
        self._stop_ids = next(iter(backends.values())).stop_ids
        self.probes = [list(probe[: len(probe) * (n + 1) // PROBES]) for n in range(PROBES)]
        """Token ids; each is the beginning of the next one."""
        self._tolerance, self._deadline, self._keep = tolerance, deadline, keep
        self._published: dict[str, list[Publication]] = {}
        """Name -> its versions that are to be held; the last may not answer yet."""
        self._answering: dict[str, Publication] = {}
        self._held: dict[str, set[str]] = {}
        """Server -> the names, or the whole model's versions, that it holds of ours."""
        self._changing = asyncio.Lock()

    def current(self, name: str) -> Publication | None:
        """What answers for `name`; None where nothing was published."""
        return self._answering.get(name)

    async def publish(self, name: str, one: Publication) -> None:
        """Have every server hold it, let it answer, and retire what is too old.

        Raises BackendError where the servers' log-probabilities are others than expected, and where
        no server takes the weights in time; the version before goes on answering then.
        """
        own = self._published.setdefault(name, [])
        own.append(one)
        try:
            await self._let_answer(name, one)
        except BackendError as error:
            own.remove(one)
            await self._bring_back(name, error)
            await self._forget(name, one)
            raise
        while len(own) > self._keep + 1:
            await self._retire(name, own.pop(0))

    async def roll_back(self, name: str) -> None:
        """From now on the version before the newest answers. Raises BackendError without one."""
        own = self._published.get(name, [])
        if len(own) < 2:
            raise BackendError(f"{name} has no version to go back to: it was published once")
        newest = own.pop()
        await self._let_answer(name, own[-1])
        await self._retire(name, newest)

    async def reload(self, base: str, endpoint: Endpoint) -> None:
        """Bring to a server of the base that was away what it holds no more."""
        async with self._changing:
            self._held[endpoint.url] = set(await endpoint.models())
            for name, own in self._published.items():
                if self.backends[name].base == base and own:
                    # Until requests under way have ended, a whole model is the one before.
                    answers = self._answering.get(name, own[-1])
                    for one in [answers] if _is_whole(answers) else own:
                        await self._hold(endpoint, one)

    async def unload(self) -> None:
        """Unload everything, where a server still runs, and remove the folders.

        Raises BackendError, with all else unloaded, where a server refuses.
        """
        published, self._published = self._published, {}
        self._answering.clear()
        refused = []
        for name, own in published.items():
            for one in own:
                try:
                    await self._forget(name, one)
                except BackendError as error:
                    refused.append(error)
        if refused:
            raise BackendError(
                f"{len(refused)} publications were not unloaded, the first: {refused[0]}"
            ) from refused[0]

    async def _bring_back(self, name: str, failed: BackendError) -> None:
        """The version before a publication that failed, where that took its place at once."""
        own = self._published[name]
        if own and _is_whole(own[-1]):
            try:
                await self._let_answer(name, own[-1])
            except BackendError as error:
                raise BackendError(f"{failed}; and {own[-1].version} cannot be put back") from error

    async def _let_answer(self, name: str, one: Publication) -> None:
        backend, adapter = self.backends[name], one.version.adapter
        # An adapter's requests under way ask for the version before by its name. A whole model has
        # one version at a time: its requests end first, and new ones wait. If it does not come
        # through, nobody knows what the servers hold, and nothing is asked of them.
        async with nullcontext() if adapter else backend.paused():
            if adapter is None:
                backend.withdraw(None)
                self._answering.pop(name, None)
            await self._spread(name, one)
            backend.serve(adapter, one.version, one.served_as)
            self._answering[name] = one

    async def _spread(self, name: str, one: Publication) -> None:
        """Until every server that takes requests holds it; one that is down is left to `reload`."""
        latest = time.monotonic() + self._deadline
        while True:
            async with self._changing:
                there = self._servers.endpoints(self.backends[name].base)
                try:
                    for endpoint in there:
                        await self._hold(endpoint, one)
                except ServerUnavailable:
                    there = []  # its supervisor restarts it
            if there:
                return
            self._servers.check()
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
        folder = await self._servers.lay(endpoint, one.folder)
        if one.version.adapter is not None:
            await endpoint.load_adapter(one.served_as, folder)
        else:
            held.clear()  # a whole model takes the place of the one before
            await endpoint.update_weights(folder)
        held.add(one.folder.name)
        if one.expected is None:
            return
        sampled = await endpoint.complete(
            one.served_as, self.probes, sampling=PROBING, max_tokens=1, stop_ids=self._stop_ids
        )
        for said in sampled:
            check_vocabulary(said, one.expected.shape[1], one.served_as)
        apart = max(
            abs(said.logprobs[0] - float(expected[said.ids[0]]))
            for said, expected in zip(sampled, one.expected, strict=True)
        )
        if not apart <= self._tolerance:
            raise BackendError(
                f"{one.served_as} at {endpoint.url}: log-probabilities differ by {apart:.3g} from "
                f"the learner's, and may by {self._tolerance:g} (backend.probe_tolerance): does "
                "the server hold the same base, in the same dtype?"
            )

    async def _retire(self, name: str, one: Publication) -> None:
        """Unload it once its requests under way have ended."""
        if not _is_whole(one):
            await self.backends[name].drained(one.served_as)
        await self._forget(name, one)

    async def _forget(self, name: str, one: Publication) -> None:
        refused: BackendError | None = None
        for endpoint in self._servers.endpoints(self.backends[name].base):
            held = self._held.get(endpoint.url, set())
            if one.folder.name in held and not _is_whole(one):
                held.discard(one.folder.name)
                try:
                    await endpoint.unload_adapter(one.served_as)
                except ServerUnavailable:
                    continue  # a server that is gone holds nothing any more
                except BackendError as error:
                    refused = refused or error
            await self._servers.clear(endpoint, one.folder)
        if refused:
            raise refused
        # Only now: a server looks for the folder of every name that it knows.
        shutil.rmtree(one.folder, ignore_errors=True)


def _is_whole(one: Publication) -> bool:
    """Whether it is a whole model, which takes the place of the version before it."""
    return one.version.adapter is None
