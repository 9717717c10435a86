"""Access of players to the model servers that the driver of a run manages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from srl_extensions.vllm.config import VLLMBackendConfig
from srl_extensions.vllm.fleet import Fleet
from srl_extensions.vllm.models import TokenFacts, backends_of
from srl_train.config.run import RunConfig
from srl_train.errors import TrainingError
from srl_train.loading import Samplers
from srl_train.publisher import WeightPublisher


@dataclass(frozen=True)
class ServerAccess:
    """Connection details of servers that another process manages."""

    urls: Mapping[str, Sequence[str]]
    """Served base -> addresses of its servers."""
    facts: Mapping[str, TokenFacts]
    """Served base -> its properties."""
    names: Sequence[str]
    """Models, pools and frozen models that sample there."""
    concurrency: int
    """Limit on the open requests of each server."""
    key: str = field(repr=False)

    def attach(self, config: RunConfig) -> Samplers:
        """Sample in these servers without loading a model.

        Raises:
            BackendError: If a server does not answer within backend.managed.start_timeout.
        """
        backend = config.backend
        assert isinstance(backend, VLLMBackendConfig) and backend.managed is not None
        fleet = Fleet.attached(
            self.urls,
            concurrency=self.concurrency,
            deadline=backend.deadline,
            key=self.key,
            patience=backend.managed.start_timeout,
        )
        backends = backends_of(config, backend, fleet, self.facts, self.names)
        return Samplers({}, backends, PublishedElsewhere(), fleet.close)


class PublishedElsewhere(WeightPublisher):
    """Publisher of a process whose servers another process manages."""

    def publish(self, name: str, version: int | str, tensors: Mapping[str, Tensor]) -> None:
        """Raise TrainingError."""
        raise TrainingError(f"{name} can be published by the process only that runs its servers")
