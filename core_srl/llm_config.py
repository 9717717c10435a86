"""Documented settings of managers, their nodes and their adapters, without torch."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import Enum
from typing import Annotated, Any

from pydantic import Field, field_validator

from core_srl.settings import settings
from srl_agents.episode import Tokens
from srl_agents.errors import BackendError
from srl_agents.llm.backends.chat_backend import ChatAnswer
from srl_agents.llm.sampling import Sampling
from srl_train.config.models import AdapterConfig, SamplingConfig
from srl_train.errors import ConfigError

ANSWER_TOKENS = 2048
"""Default limit of an answer, hidden reasoning included."""
Text = Annotated[str, Field(min_length=1)]
Port = Annotated[int, Field(ge=1, le=65535)]


class LLMBackend(Enum):
    """Places where a manager's model runs."""

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
    INCREMENTAL = "incremental"
    """Plain gradient descent."""
    FROZEN = "frozen"
    """No updates."""


@settings
class LLMConfig:
    """Documented settings of a manager. Raises ConfigError for a setting its backend ignores."""

    backend: Annotated[LLMBackend, Field(strict=False)] = LLMBackend.HUGGINGFACE
    """An LLMBackend or its value."""
    model_name: Text = "Qwen/Qwen2.5-14B-Instruct"
    """Folder of a model or PEFT adapter, hub name, or name on the server."""
    device: Text = "auto"
    """HUGGINGFACE: 'auto' (a GPU if there is one) or a torch device."""
    max_length: Annotated[int, Field(ge=2)] = 32768
    """Tokens of a conversation, prompts and answers together. An API counts them afterwards."""
    temperature: Annotated[float, Field(ge=0)] = 0.7
    """Temperature of nodes without their own. Anthropic's API only accepts 1."""
    api_key: Text | None = field(default=None, repr=False)
    """Key of an API (None: OPENAI_API_KEY or ANTHROPIC_API_KEY) or of a vLLM server."""
    enable_lora: bool = False
    """HUGGINGFACE: add a LoRA adapter and update only its weights."""
    update_strategy: Annotated[UpdateStrategy, Field(strict=False)] = UpdateStrategy.ADAPTIVE
    """HUGGINGFACE: an UpdateStrategy or its value."""
    port: Port = 8001
    """VLLM: port of the server on this machine."""

    @field_validator("backend", mode="before")
    @classmethod
    def _check_backend(cls, given: Any) -> Any:
        if given not in [*LLMBackend, *(one.value for one in LLMBackend)]:
            raise ConfigError(f"Unsupported LLM backend: {given!r}, must be an LLMBackend")
        return given

    def __post_init__(self) -> None:
        for own in fields(self):
            readers = _READERS.get(own.name)
            if readers and self.backend not in readers and getattr(self, own.name) != own.default:
                raise ConfigError(f"{own.name} is not read by the backend {self.backend.value}")

    @property
    def sampling(self) -> Sampling:
        """Sampling of nodes without their own settings."""
        return Sampling(temperature=self.temperature, max_new_tokens=ANSWER_TOKENS)


_APIS = (LLMBackend.OPENAI_API, LLMBackend.ANTHROPIC, LLMBackend.VLLM)
_READERS: Mapping[str, tuple[LLMBackend, ...]] = {
    "device": (LLMBackend.HUGGINGFACE,),
    "enable_lora": (LLMBackend.HUGGINGFACE,),
    "update_strategy": (LLMBackend.HUGGINGFACE,),
    "api_key": _APIS,
    "port": (LLMBackend.VLLM,),
}
"""Setting -> backends that read it, if not all do."""


@dataclass(frozen=True)
class LLMResponse(ChatAnswer):
    """Answer to a node.

    With shared weights `model` is NAME@VERSION, and `finish_reason` is "stop" or "length".
    """

    tokens: Tokens | None = None
    """Tokens read and sampled, with log-probabilities; None for an API."""


@settings
class NodeSettings:
    """Settings of a node's conversation."""

    sampling: Sampling
    system_prompt: str = ""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    """Source of the randomness of its answers, if the model accepts a seed."""


def node_settings(node_id: str, given: Mapping[str, Any] | None, usual: Sampling) -> NodeSettings:
    """Return the settings of a node from its documented mapping. Raises ConfigError.

    A node without a `seed` derives one from its id.
    """
    own = dict(given or {})
    seed = own.pop("seed", zlib.crc32(node_id.encode()))
    prompt = own.pop("system_prompt", "")
    return NodeSettings(sampling_with(usual, own), prompt, seed)


def sampling_with(usual: Sampling, changes: Mapping[str, Any]) -> Sampling:
    """Return `usual` with changed settings. Raises ConfigError."""
    return SamplingConfig(**{**asdict(usual), **changes}).build()


def sampling_within(sampling: Sampling, length: int, limit: int) -> Sampling:
    """Return the sampling with at most the tokens that a conversation may still have.

    Raises BackendError for a conversation that has reached its limit.
    """
    if length >= limit:
        raise BackendError(
            f"the conversation has {length} tokens, and max_length or the model allow {limit}: "
            "register the node again, which restarts it"
        )
    return replace(sampling, max_new_tokens=min(sampling.max_new_tokens, limit - length))


def check_text(name: str, value: Any) -> str:
    """Return a text that is not blank. Raises ConfigError for other values."""
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{name} must be a text, got {value!r}")
    return value


@settings
class LoRAConfig:
    """Documented settings of a LoRA adapter. Raises ConfigError, a ValueError."""

    lora_id: Annotated[int, Field(ge=0)]
    """Number of the adapter among those of one base."""
    rank: int = 16
    """Inner dimension of the adapter's matrices."""
    alpha: float = 32.0
    """Scale: the adapter's product is multiplied by alpha / rank."""
    dropout: float = 0.1
    """Probability of dropping an input of the adapter in training."""
    target_modules: Annotated[list[str], Field(min_length=1)] = Field(
        default_factory=lambda: ["q_proj", "v_proj", "k_proj", "o_proj"]
    )
    """Linear layers to adapt, by the ends of their paths."""
    gpu_id: Annotated[int, Field(ge=0)] = 0
    """GPU of the adapter's server in a DistributedLoRAScheduler."""
    port: Port = 8001
    """Port of that server, which adapters of the same port share."""

    def __post_init__(self) -> None:
        self.adapter  # noqa: B018  # validates the remaining fields

    @property
    def name(self) -> str:
        """Name of the adapter in backends and servers."""
        return f"lora_{self.lora_id}"

    @property
    def adapter(self) -> AdapterConfig:
        """Settings of the adapter in a RunConfig."""
        return AdapterConfig(
            rank=self.rank,
            alpha=self.alpha,
            dropout=self.dropout,
            target_modules=tuple(self.target_modules),
        )
