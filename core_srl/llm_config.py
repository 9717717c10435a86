"""Documented settings of managers and adapters, without torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Annotated, Any, Self, TypeVar

from pydantic import Field, field_validator, model_validator

from core_srl.models import MODERN_MODELS
from srl_agents.episode import Tokens
from srl_agents.llm.backends.chat_backend import ChatAnswer
from srl_agents.llm.sampling import Sampling
from srl_train.config.models import AdapterConfig, SamplingConfig
from srl_train.config.section import LocalPath, Section
from srl_train.errors import ConfigError

DEFAULT_MODEL = MODERN_MODELS["qwen3"]
ANSWER_TOKENS = 2048
"""Default limit of an answer, hidden reasoning included."""
Text = Annotated[str, Field(min_length=1)]
Port = Annotated[int, Field(ge=1, le=65535)]


class LLMBackend(Enum):
    """Places where a model runs."""

    HUGGINGFACE = "huggingface"
    """Transformers in this process."""
    OPENAI_API = "openai_api"
    ANTHROPIC = "anthropic"
    VLLM = "vllm"
    """A vLLM server of this machine."""


class UpdateStrategy(Enum):
    """Ways to apply gradients to a manager's shared weights."""

    ADAPTIVE = "adaptive"
    """AdamW without weight decay, whose moments persist."""


S = TypeVar("S", bound=Section)


def refuse_ignored(section: S, ignored: Iterable[str], kind: str) -> S:
    """Return the section; raise ConfigError if a field in `ignored` differs from its default.

    `kind` is the field, such as "backend", whose value makes them have no effect.
    """
    for name in ignored:
        if getattr(section, name) != type(section).model_fields[name].default:
            raise ConfigError(f"{name} has no effect where {kind} is {getattr(section, kind)}")
    return section


class LLMConfig(Section):
    """Documented settings of a manager; ConfigError for an invalid value or one without effect."""

    backend: Annotated[LLMBackend, Field(strict=False)] = LLMBackend.HUGGINGFACE
    model_name: Annotated[LocalPath, Field(min_length=1)] = DEFAULT_MODEL
    """Folder of a model or PEFT adapter, hub name, or name on the server."""
    device: Text = "auto"
    """HUGGINGFACE: 'auto' (a GPU if there is one) or a torch device."""
    max_length: Annotated[int, Field(ge=2)] = 32768
    """HUGGINGFACE: limit on a conversation's tokens, if the model has no lower limit."""
    temperature: Annotated[float, Field(ge=0)] = 0.7
    """Temperature of nodes without their own. Anthropic's API only accepts 1."""
    api_key: Annotated[Text | None, Field(repr=False)] = None
    """Key of an API (None: OPENAI_API_KEY or ANTHROPIC_API_KEY) or of a vLLM server."""
    enable_lora: bool = False
    """HUGGINGFACE: add a LoRA adapter and update only its weights."""
    update_strategy: Annotated[UpdateStrategy, Field(strict=False)] = UpdateStrategy.ADAPTIVE
    port: Port = 8001
    """VLLM: port of the server on this machine."""

    @field_validator("backend", mode="before")
    @classmethod
    def _check_backend(cls, given: Any) -> Any:
        if given not in [*LLMBackend, *(one.value for one in LLMBackend)]:
            raise ValueError("Unsupported LLM backend, must be an LLMBackend")
        return given

    @model_validator(mode="after")
    def _refuse_ignored(self) -> Self:
        in_process = self.backend is LLMBackend.HUGGINGFACE
        ignored = ["api_key"] if in_process else ["device", "enable_lora", "max_length"]
        if self.backend is not LLMBackend.VLLM:
            ignored.append("port")
        return refuse_ignored(self, ignored, "backend")

    @property
    def sampling(self) -> Sampling:
        """Default sampling settings of nodes: temperature and ANSWER_TOKENS."""
        return Sampling(temperature=self.temperature, max_new_tokens=ANSWER_TOKENS)


@dataclass(frozen=True)
class LLMResponse(ChatAnswer):
    """Answer to a node.

    With a model in this process, `model` is NAME@VERSION and `finish_reason` "stop" or "length".
    """

    tokens: Tokens | None = None
    """Tokens of the new prompt and of the answer; None for an API or vLLM."""


def sampling_with(usual: Sampling, changes: Mapping[str, Any]) -> Sampling:
    """Return a copy of `usual` with `changes` (setting -> value); ConfigError for a wrong one."""
    return SamplingConfig(**{**asdict(usual), **changes}).build()


class LoRAConfig(AdapterConfig):
    """Documented settings of a LoRA adapter; ConfigError, a ValueError, for a value not allowed."""

    lora_id: Annotated[int, Field(ge=0)]
    """Number of the adapter among those of one base."""
    dropout: Annotated[float, Field(ge=0, le=0.99)] = 0.1
    """Probability of dropping an input of the adapter in training."""
    target_modules: list[str] = Field(  # type: ignore[assignment]
        default_factory=lambda: ["q_proj", "v_proj", "k_proj", "o_proj"]
    )
    """Linear layers to adapt, by the ends of their paths."""
    gpu_id: Annotated[int, Field(ge=0)] = 0
    """GPU of the adapter's server in a DistributedLoRAScheduler."""
    port: Port = 8001
    """Port of that server, which adapters of the same port share."""

    @property
    def name(self) -> str:
        """Name of the adapter in backends and servers, such as "lora_0"."""
        return f"lora_{self.lora_id}"
