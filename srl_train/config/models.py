"""What a run is told of its models: which learn, which only play, and how each of them answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from srl_agents.llm.backends.registry import is_api_name
from srl_agents.llm.sampling import Sampling
from srl_train.config.bounds import above, at_least, within
from srl_train.errors import ConfigError
from srl_train.players.api_models import refuse_for_apis

LEFT_OUT_AS_IN = "left_out_as_in"
"""Of a field's metadata: the section beside it that its entries take for what they leave out."""


@dataclass(frozen=True)
class AdapterConfig:
    """LoRA adapters on one shared base (Hu et al. 2021), one per model."""

    rank: int = 16
    """Inner dimension of every adapter matrix pair."""
    alpha: float = 32.0
    """Scale: the adapter's product is multiplied by alpha / rank."""
    dropout: float = 0.0
    """Probability of dropping an adapter input while training."""
    target_modules: str | tuple[str, ...] = "all-linear"
    """Module names to adapt, or 'all-linear'."""

    def __post_init__(self) -> None:
        at_least("models.adapters.rank", self.rank, 1)
        above("models.adapters.alpha", self.alpha, 0.0)
        within("models.adapters.dropout", self.dropout, 0.0, 0.99)


EMBEDDED_SAMPLING = Sampling(max_new_tokens=4)
USUAL_SAMPLING = Sampling(max_new_tokens=32)


def sampling_beside(told: Mapping[str, Any]) -> Sampling:
    """What `sampling` is where the section `models`, as `told`, leaves it out."""
    base, frozen = told.get("base", "tiny"), told.get("frozen") or {}
    bases = list(base) if isinstance(base, list | tuple) else [base]
    bases += frozen.values() if isinstance(frozen, Mapping) else []
    return EMBEDDED_SAMPLING if all(one == "tiny" for one in bases) else USUAL_SAMPLING


@dataclass(frozen=True)
class ModelsConfig:
    """Which models learn."""

    LEFT_OUT: ClassVar[Mapping[str, Callable[[Mapping[str, Any]], Any]]] = {
        "sampling": sampling_beside
    }
    """Field -> what it is where it is left out, given the section as a file has it."""

    count: int = 4
    """How many models train at once; they are called model_0, model_1, ..."""
    base: str | tuple[str, ...] = "tiny"
    """'tiny' (the embedded model), a local folder (a model's, a PEFT adapter's, or RUN:model_0), or
    a hub name (NAME or NAME@REVISION); or one of these per model."""
    frozen: Mapping[str, str] = field(default_factory=dict)
    """Further models that play and never learn: name -> base, or a model behind an API, such as
    'openai:gpt-5-mini' (docs/api_models.md); `seats` says where they sit."""
    adapters: AdapterConfig | None = None
    """Train LoRA adapters on one shared base instead of full models."""
    sampling: Sampling = EMBEDDED_SAMPLING
    """How answers are sampled, in training and evaluation. Where max_new_tokens is left out it is
    4 for the embedded model, which answers in a word, and 32 beside any other model."""
    seat_sampling: Mapping[str, Sampling] = field(
        default_factory=dict, metadata={LEFT_OUT_AS_IN: "sampling"}
    )
    """Seat -> its own sampling settings, in place of `sampling`; in a file, what a seat leaves out
    is as there."""
    constrained: bool = False
    """Sample only among the legal answers, and train with the same masking."""
    partner_notes: bool = False
    """Tell every model, each turn, what the others did so far in the game and what to expect."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """'auto' takes an accelerator where there is one."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Of the weights; adapters are always trained in float32."""
    attn_implementation: str | None = None
    """Of attention, by transformers' names, such as 'sdpa' or 'flash_attention_2'; null leaves it
    to transformers."""
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """What the models' chat templates are told beside the messages, such as enable_thinking."""
    quantization: Literal["nf4", "int8"] | None = None
    """Hold what never trains, the adapters' shared base and frozen models, in 4 or 8 bits."""

    def __post_init__(self) -> None:
        if self.sampling is EMBEDDED_SAMPLING:  # left out
            object.__setattr__(self, "sampling", sampling_beside(vars(self)))
        at_least("models.count", self.count, 1)
        if not isinstance(self.base, str) and len(self.base) != self.count:
            raise ConfigError(
                f"models.base lists {len(self.base)} models, models.count is {self.count}: "
                "give one name, or one per model"
            )
        refuse_for_apis(self.bases, self.frozen, constrained=self.constrained)
        still = [base for base in self.frozen.values() if not is_api_name(base)]
        if self.quantization is not None and self.adapters is None and not still:
            raise ConfigError(
                f"models.quantization is {self.quantization!r}, and quantised weights cannot be "
                "trained: train adapters on them (models.adapters), or leave it out"
            )

    @property
    def bases(self) -> tuple[str, ...]:
        """The base of each model, in order."""
        return (self.base,) * self.count if isinstance(self.base, str) else self.base

    @property
    def names(self) -> tuple[str, ...]:
        """model_0, model_1, ..."""
        return tuple(f"model_{index}" for index in range(self.count))


@dataclass(frozen=True)
class PoolConfig:
    """Snapshots of models that learn, to play against (docs/self_play.md)."""

    of: tuple[str, ...] = ("model_0",)
    """The models whose past versions are in the pool."""
    every: int = 5
    """Rounds between two snapshots; the first is taken before the first round."""
    keep: int = 8
    """The newest snapshots of each model that are kept, beside its first."""
    draw: Literal["uniform", "latest", "prioritized"] = "uniform"
    """Which one sits in the pool's seats in a round."""

    def __post_init__(self) -> None:
        if not self.of:
            raise ConfigError("a pool's `of` is empty: name the models whose past it holds")
        at_least("a pool's `every`", self.every, 1)
        at_least("a pool's `keep`", self.keep, 1)
