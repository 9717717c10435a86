"""Managers of single language models: nodes, each a conversation, on one model."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from core_srl.errors import as_documented
from core_srl.llm_config import LLMBackend, LLMConfig, LLMResponse, sampling_with
from srl_agents.event_loop import run
from srl_agents.llm.backends.anthropic import AnthropicModel
from srl_agents.llm.backends.chat_backend import ChatModel, ChatRequest, Message, Usage, seed_from
from srl_agents.llm.backends.openai import OpenAIModel
from srl_agents.llm.sampling import Sampling
from srl_envs.loading import needed_by
from srl_envs.validation import whole_number
from srl_train.errors import ConfigError, UpdateError

if TYPE_CHECKING:
    from core_srl.shared_weights import SharedWeights


@dataclass
class _Node:
    sampling: Sampling
    conversation: Any
    lock: threading.Lock = field(default_factory=threading.Lock)
    usage: Usage = field(default_factory=Usage)


class SharedLLMManager:
    """Nodes that converse with one model and share its weights.

    Each node has its own system prompt, sampling and history. Threads may use nodes at the
    same time; a node makes one answer at a time.

    Args:
        config: Settings of the model, which the constructor loads, or of the client of its API.

    Raises:
        BackendError: "Model loading failed", "GPU memory insufficient", missing SDK or key.
        PolicyError: The API does not support the temperature.
        ConfigError: `enable_lora` is set for a model that is an adapter.
    """

    def __init__(self, config: LLMConfig) -> None:
        self.config = config
        self._model: SharedWeights | _ApiModel
        if config.backend is LLMBackend.HUGGINGFACE:
            with needed_by("a manager of a Hugging Face model"):
                from core_srl.shared_weights import SharedWeights
            self._model = SharedWeights(config)
        else:
            self._model = _ApiModel(config)
        self._nodes: dict[str, _Node] = {}

    @property
    def backend(self) -> Any:
        """Backend of the model: a HuggingFaceBackend, or a ChatModel for an API or vLLM."""
        return self._model.backend

    def register_node(self, node_id: str, node_config: Mapping[str, Any] | None = None) -> None:
        """Start the conversation of a node; a registered node and its counts restart.

        Args:
            node_id: Name of the node.
            node_config: Settings, with their defaults: system_prompt (none), seed of the samples (a
                checksum of the name), temperature (the LLMConfig's), top_p (1), top_k (0: all) and
                max_new_tokens (2048).

        Raises:
            ConfigError: For other settings or wrong values; EnvConfigError for a wrong seed.
            PolicyError: For a setting that the API does not accept.
        """
        own = dict(node_config or {})
        rules = str(own.pop("system_prompt", "")).strip()
        seed = own.pop("seed", zlib.crc32(node_id.encode()))
        sampling = sampling_with(self.config.sampling, own)
        seed = whole_number("seed", seed, 0, 2**32 - 1)
        former = self._nodes.get(node_id)
        self._nodes[node_id] = _Node(sampling, self._model.start(sampling, rules, seed))
        if former is not None:
            with former.lock:
                self._model.end(former.conversation)

    def generate_for_node(self, node_id: str, prompt: str, **kwargs: Any) -> LLMResponse:
        """Return the answer, an LLMResponse with `text`, to the next prompt of a node.

        Args:
            node_id: Name of a registered node.
            prompt: Next user message of the conversation.
            kwargs: temperature, top_p, top_k or max_new_tokens of this answer, by default the
                node's.

        Raises:
            ConfigError: For an unknown node or setting, or a wrong value.
            PolicyError: For a setting that the API lacks.
            BackendError: If the model fails, or the conversation has reached its limit of tokens.
                An API's error is also of the SDK's class. The history is unchanged.
        """
        if node_id not in self._nodes:
            known = ", ".join(self._nodes) or "none yet"
            raise ConfigError(f"node {node_id!r} is not registered: there is {known}")
        node = self._nodes[node_id]
        sampling = sampling_with(node.sampling, kwargs)
        with node.lock, as_documented():
            response, node.conversation = self._model.answer(node.conversation, prompt, sampling)
            node.usage.add(response)
        return response

    def update_shared_parameters(
        self, gradients: Mapping[str, Any], learning_rate: float = 1e-4
    ) -> dict[str, Any]:
        """Make one AdamW step on the shared weights.

        Args:
            gradients: Tensor by name in `backend.model.named_parameters()`, for some or all;
                only of the adapter if there is one.
            learning_rate: Learning rate of this AdamW step.

        Returns:
            version, parameters (number of updated tensors), gradient_norm (L2), learning_rate and
            affected_nodes (ids of all nodes).

        Raises:
            UpdateError: For no or wrong gradients, numbers that are not finite, a wrong learning
                rate, and models behind an API or vLLM. The weights remain unchanged.
        """
        done = self._model.update(gradients, learning_rate)
        return done | {"learning_rate": learning_rate, "affected_nodes": list(self._nodes)}

    def get_global_stats(self) -> dict[str, Any]:
        """Return the statistics of the model and of its nodes.

        The keys are llm_model, llm_backend, weights_version (None for an API or vLLM),
        total_updates, registered_nodes_count, total_requests, total_prompt_tokens,
        total_completion_tokens and node_usage_stats: node id -> requests, prompt_tokens and
        completion_tokens. Counts before the restart of a node are in no total.
        """
        usage = {
            name: {
                "requests": node.usage.answers,
                "prompt_tokens": node.usage.prompt_tokens,
                "completion_tokens": node.usage.completion_tokens,
            }
            for name, node in list(self._nodes.items())  # Other threads may register nodes.
        }
        return {
            "llm_model": self._model.backend.name,
            "llm_backend": self.config.backend.value,
            "weights_version": self._model.version,
            "total_updates": self._model.version or 0,
            "registered_nodes_count": len(usage),
            **{
                f"total_{kind}": sum(node[kind] for node in usage.values())
                for kind in ("requests", "prompt_tokens", "completion_tokens")
            },
            "node_usage_stats": usage,
        }


_ApiConversation = tuple[np.random.Generator, tuple[Message, ...]]
"""Generator of the seeds of requests, and the messages so far."""


class _ApiModel:
    version = None

    def __init__(self, config: LLMConfig) -> None:
        self._config = config
        self.backend = self._client()
        self.backend.check(config.sampling)

    def _client(self) -> ChatModel:
        key, model = self._config.api_key, self._config.model_name
        if self._config.backend is LLMBackend.ANTHROPIC:
            return AnthropicModel(model, api_key=key)
        if self._config.backend is LLMBackend.OPENAI_API:
            return OpenAIModel(model, api_key=key)
        # A local server never receives the key of OpenAI's API.
        url = f"http://localhost:{self._config.port}/v1"
        return OpenAIModel(model, api_key=key or "none", base_url=url)

    def start(self, sampling: Sampling, rules: str, seed: int) -> _ApiConversation:
        self.backend.check(sampling)
        opening: tuple[Message, ...] = ({"role": "system", "content": rules},) if rules else ()
        return np.random.default_rng(seed), opening

    def answer(
        self, state: _ApiConversation, prompt: str, sampling: Sampling
    ) -> tuple[LLMResponse, _ApiConversation]:
        self.backend.check(sampling)
        rng, messages = state
        messages = (*messages, {"role": "user", "content": prompt.strip()})
        seed = seed_from(rng) if self.backend.takes_seed else None
        answer = run(self.backend.answer(ChatRequest(messages, sampling, seed)))
        messages = (*messages, {"role": "assistant", "content": answer.text})
        return LLMResponse(**vars(answer)), (rng, messages)

    def end(self, state: _ApiConversation) -> None:
        """Do nothing: the API keeps no conversation."""

    def update(self, gradients: Mapping[str, Any], learning_rate: float) -> dict[str, Any]:
        raise UpdateError(
            f"the weights of {self.backend.name} are out of reach: only "
            f"{LLMBackend.HUGGINGFACE} has weights to update"
        )


def create_qwen3_manager(
    model_name: str,
    device: str = "auto",
    *,
    max_length: int = 32768,
    temperature: float = 0.7,
) -> SharedLLMManager:
    """Load a model and return its manager; raises the errors of SharedLLMManager and LLMConfig.

    Args:
        model_name: Folder, PEFT adapter or hub name.
        device: Torch device; "auto" selects a GPU if there is one.
        max_length: Limit on the tokens of a conversation, prompts and answers together.
        temperature: Temperature of nodes without their own.
    """
    return SharedLLMManager(
        LLMConfig(
            model_name=model_name, device=device, max_length=max_length, temperature=temperature
        )
    )


create_qwen_coder_manager = partial(create_qwen3_manager, max_length=16384, temperature=0.3)
"""create_qwen3_manager with defaults for programs."""
create_qwen_math_manager = partial(create_qwen3_manager, max_length=8192, temperature=0.2)
"""create_qwen3_manager with defaults for mathematics."""
create_llama3_manager = partial(create_qwen3_manager, max_length=131072)
"""create_qwen3_manager with the longest conversations of Llama 3.1."""


def create_openai_manager(model_name: str, api_key: str | None = None) -> SharedLLMManager:
    """Create a manager of a model behind OpenAI's API or a server at OPENAI_BASE_URL.

    `model_name` is the model's name in the API; without `api_key`, OPENAI_API_KEY has the key. For
    a model that accepts no temperature, register nodes with temperature 1: the value 1 is not sent
    to OpenAI and Azure. Raises BackendError if the SDK or the key is missing.
    """
    return SharedLLMManager(
        LLMConfig(backend=LLMBackend.OPENAI_API, model_name=model_name, api_key=api_key)
    )


def create_claude_manager(model_name: str, api_key: str | None = None) -> SharedLLMManager:
    """Create a manager of a model behind Anthropic's API, with temperature 1 and top_p 1 only.

    `model_name` is the model's name in the API; without `api_key`, ANTHROPIC_API_KEY has the key.
    Raises BackendError if the SDK or the key is missing.
    """
    kind = LLMBackend.ANTHROPIC
    return SharedLLMManager(
        LLMConfig(backend=kind, model_name=model_name, api_key=api_key, temperature=1.0)
    )
