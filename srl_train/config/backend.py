"""Section `backend` of a run: its base class, and sampling in the trainer's process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from srl_agents.llm.backends.registry import BACKENDS
from srl_train.config.section import Listed, Section, chosen_by

if TYPE_CHECKING:
    from srl_train.config.run import RunConfig


class BackendSection(Section):
    """Base class of the section `backend`.

    Each sampling backend for models in training has a subclass, with `name` as a Literal. The class
    attributes and properties say what the rest of a run depends on.
    """

    CHOICE: ClassVar = "name"
    SAMPLERS: ClassVar[str]
    """`module:function` that opens the samplers: (config, start: SamplerStart) -> Samplers
    (srl_train.loading)."""
    PLACED_SERVERS: ClassVar[str | None] = None
    """`module:class` that runs the backend's servers in actors of a cluster
    (srl_extensions/cluster/README.md); None if there are no servers."""
    IN_PROCESS: ClassVar[bool] = True
    """True if models sample from the modules that learn, in the learner's process."""

    name: str
    """Name of the backend in BACKENDS."""

    @property
    def divergence_limit(self) -> float | None:
        """Mean difference in log-probability between sampler and learner at which training stops;
        None if both are one module."""
        return None

    @property
    def publication_lag(self) -> int:
        """Largest number of updates that samplers are behind the learner by configuration."""
        return 0

    def check_run(self, config: RunConfig) -> None:
        """Raise ConfigError for other sections that do not work with this backend."""


class TransformersBackendConfig(BackendSection):
    """Models sample in the trainer's process, by transformers."""

    READ_WHERE: ClassVar = {"kept_tokens": ("batched is true", lambda own: own.batched)}

    SAMPLERS: ClassVar = "srl_train.loading:open_samplers"

    name: Literal["transformers"] = "transformers"
    """What samples for the models in training: `transformers` in the trainer's process, or `vllm`
    in servers (docs/agents/serving.md)."""
    batched: bool = True
    """Answers are sampled together, and a conversation's keys and values are kept between its
    turns; false samples one after another, each context read from its beginning."""
    kept_tokens: Annotated[int, Field(ge=1)] | None = None
    """Tokens whose keys and values each loaded model keeps of conversations between their turns;
    the longest unused go first and are read again. null keeps all in play."""


SECTION = TransformersBackendConfig


BackendConfig = Annotated[BackendSection, Listed(BACKENDS), chosen_by("name", "transformers")]
"""The section of any backend in BACKENDS; its module is imported when a configuration names it."""
