"""Settings of a manager and of its nodes, and what a node is answered. No torch."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any

from core_srl.arguments import text, whole
from srl_agents.episode import Tokens
from srl_agents.llm.backends.chat_backend import ChatAnswer
from srl_agents.llm.sampling import Sampling
from srl_train.errors import ConfigError

ANSWER_TOKENS = 2048
"""Of an answer at most, where a node does not say: reasoning that is not shown counts as well."""


class LLMBackend(Enum):
    """Where a manager's model runs."""

    HUGGINGFACE = "huggingface"
    """In this process, by transformers."""
    OPENAI_API = "openai_api"
    ANTHROPIC = "anthropic"
    VLLM = "vllm"
    """On a vLLM server of this machine."""


class UpdateStrategy(Enum):
    """How a manager applies gradients to its shared weights."""

    ADAPTIVE = "adaptive"
    """AdamW without weight decay; its moments are kept from update to update."""
    INCREMENTAL = "incremental"
    """Plain gradient descent."""
    FROZEN = "frozen"
    """Not at all: updates are refused."""


@dataclass(frozen=True)
class LLMConfig:
    """The documented settings of a manager.

    A setting that the backend would not read is refused. Raises ConfigError, a ValueError.
    """

    backend: LLMBackend = LLMBackend.HUGGINGFACE
    """A LLMBackend or its value."""
    model_name: str = "Qwen/Qwen2.5-14B-Instruct"
    """A local folder (a model's or a PEFT adapter's) or hub name; elsewhere the server's name."""
    device: str = "auto"
    """Hugging Face: 'auto' (a GPU where there is one) or a torch device."""
    max_length: int = 32768
    """Tokens of a conversation, prompts and answers together. An API counts them afterwards."""
    temperature: float = 0.7
    """Of every node that has none of its own. Anthropic's API knows 1 alone."""
    api_key: str | None = field(default=None, repr=False)
    """APIs: None takes OPENAI_API_KEY or ANTHROPIC_API_KEY; vLLM: what its --api-key says."""
    enable_lora: bool = False
    """Hugging Face: put a LoRA adapter on, which alone is updated."""
    update_strategy: UpdateStrategy = UpdateStrategy.ADAPTIVE
    """Hugging Face: an UpdateStrategy or its value."""
    port: int = 8001
    """vLLM: its server is http://localhost:PORT/v1."""

    def __post_init__(self) -> None:
        backend = _member("Unsupported LLM backend", LLMBackend, self.backend)
        strategy = _member("Unsupported update strategy", UpdateStrategy, self.update_strategy)
        object.__setattr__(self, "backend", backend)
        object.__setattr__(self, "update_strategy", strategy)
        for name in ("model_name", "device"):
            text(name, getattr(self, name))
        if self.api_key is not None and (not isinstance(self.api_key, str) or not self.api_key):
            raise ConfigError("api_key is no text: give the key, or None")
        whole("max_length", self.max_length, 2)
        whole("port", self.port, 1, 65535)
        if not isinstance(self.enable_lora, bool):
            raise ConfigError(f"enable_lora is {self.enable_lora!r}: give True or False")
        self.sampling  # noqa: B018  # checks the temperature
        unread = {name for names in _READ.values() for name in names} - set(_READ[backend])
        for own in fields(self):
            if own.name in unread and getattr(self, own.name) != own.default:
                shown = "given" if own.name == "api_key" else getattr(self, own.name)
                raise ConfigError(
                    f"{own.name} is {shown}, and the backend {backend.value} reads none: "
                    "leave it out"
                )

    @property
    def sampling(self) -> Sampling:
        """How a node is answered that has no settings of its own."""
        usual = Sampling(max_new_tokens=ANSWER_TOKENS)
        return _sampling("temperature", {"temperature": self.temperature}, usual)


_READ: Mapping[LLMBackend, tuple[str, ...]] = {
    LLMBackend.HUGGINGFACE: ("device", "enable_lora", "update_strategy"),
    LLMBackend.OPENAI_API: ("api_key",),
    LLMBackend.ANTHROPIC: ("api_key",),
    LLMBackend.VLLM: ("api_key", "port"),
}
"""Backend -> the settings that not all backends read, of those it does."""


@dataclass(frozen=True)
class LLMResponse(ChatAnswer):
    """One answer to a node.

    Of shared weights `model` is NAME@VERSION, and `finish_reason` "stop" or "length".
    """

    tokens: Tokens | None = None
    """What was read and sampled, with log-probabilities, to learn from; None of an API."""


@dataclass(frozen=True)
class NodeSettings:
    """What a node's conversation is held with."""

    sampling: Sampling
    system_prompt: str = ""
    """Empty: it begins without one."""
    adapter: str | None = None
    """Hugging Face: a PEFT adapter's folder or hub name; vLLM: a served adapter's name."""
    seed: int = 0
    """All randomness of its answers, where the model takes a seed."""


_SAMPLING = tuple(own.name for own in fields(Sampling))


def node_settings(node_id: str, given: Mapping[str, Any] | None, usual: Sampling) -> NodeSettings:
    """The settings of a node from its documented mapping; what it leaves out is as usual.

    Without a `seed`, the node draws from one made of its name. Raises ConfigError.
    """
    where = f"node {node_id!r}"
    if given is not None and not isinstance(given, Mapping):
        raise ConfigError(f"{where}: node_config is {given!r}: give a mapping")
    own = dict(given or {})
    system_prompt = own.pop("system_prompt", "")
    adapter = own.pop("adapter", None)
    seed = own.pop("seed", zlib.crc32(node_id.encode()))
    if system_prompt != "":
        text(f"{where}: system_prompt", system_prompt)
    if adapter is not None:
        text(f"{where}: adapter", adapter)
    whole(f"{where}: seed", seed, 0, 2**32 - 1)
    sampling = _sampling(where, own, usual, others=("system_prompt", "adapter", "seed"))
    return NodeSettings(sampling, system_prompt, adapter, seed)


def overridden(sampling: Sampling, given: Mapping[str, Any]) -> Sampling:
    """The sampling of one answer, with what was given for it alone. Raises ConfigError."""
    return _sampling("generate_for_node", given, sampling)


def _sampling(
    where: str, given: Mapping[str, Any], usual: Sampling, others: tuple[str, ...] = ()
) -> Sampling:
    for name, value in given.items():
        if name not in _SAMPLING:
            allowed = ", ".join((*others, *_SAMPLING))
            raise ConfigError(f"{where}: unknown setting {name!r}: give one of {allowed}")
        kinds = (int,) if name in ("top_k", "max_new_tokens") else (int, float)
        if type(value) not in kinds:
            raise ConfigError(f"{where}: {name} is {value!r}: give a number")
    try:
        return replace(usual, **given)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from error


def _member(what: str, kind: type[Enum], given: Any) -> Any:
    try:
        return kind(given)
    except ValueError:
        allowed = ", ".join(str(member) for member in kind)
        raise ConfigError(f"{what}: {given!r}; give one of {allowed}") from None
