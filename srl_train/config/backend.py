"""Section `backend` of a run: its base class, and sampling in the trainer's process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from srl_agents.llm.backends.registry import BACKENDS
from srl_train.config.section import Deferred, Section, chosen_by

if TYPE_CHECKING:
    from srl_train.config.run import RunConfig


class BackendSection(Section):
    """Base class of the section `backend`: settings of a sampling backend for models in training.

    Each backend has a subclass, whose `name` is a Literal.
    """

    CHOICE: ClassVar = "name"
    SAMPLERS: ClassVar[str]
    """`module:function` that opens the samplers: (RunConfig, SamplerStart) -> Samplers
    (srl_train.loading)."""
    SHARED_SERVERS: ClassVar[str | None] = None
    """`module:class` of servers that rollout workers of a cluster share
    (srl_extensions/cluster/README.md), or None for a backend without servers."""
    IN_PROCESS: ClassVar[bool] = True
    """True if models sample from the modules that learn, in the learner's process."""

    name: str
    """Name of the backend in BACKENDS."""

    @property
    def divergence_limit(self) -> float | None:
        """Limit of the mean absolute difference in log-probability of sampler and learner.

        Training stops above this. None, the value unless overridden, is no limit.
        """
        return None

    def check_run(self, config: RunConfig) -> None:
        """Raise ConfigError if other settings exclude this backend; here do nothing."""


class TransformersBackendConfig(BackendSection):
    """Sampling by transformers in the trainer's process."""

    SAMPLERS: ClassVar = "srl_train.loading:open_samplers"

    name: Literal["transformers"] = "transformers"
    """Sampling backend of the models in training: `transformers` in the trainer's process, or
    `vllm` in servers (docs/agents/serving.md)."""
    batched: bool = True
    """If true, answers are sampled in batches, and the key-value cache of a conversation is reused
    in its next step. If false, each prompt is sampled alone and read from its beginning."""
    kv_cache_tokens: Annotated[int, Field(ge=1)] | None = None
    """Maximum number of tokens in each model's key-value caches between steps; the least recently
    used conversations are dropped first. null sets no limit."""


SECTION = TransformersBackendConfig


BackendConfig = Annotated[BackendSection, Deferred(BACKENDS), chosen_by("name", "transformers")]
"""Section of any backend in BACKENDS; its module is imported when a configuration names it."""
