"""Managers of single language models: nodes, each a conversation, on one model for all."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from core_srl.arguments import text
from core_srl.managers.api_conversations import ApiConversations
from core_srl.managers.llm_config import (
    LLMBackend,
    LLMConfig,
    LLMResponse,
    NodeSettings,
    node_settings,
    overridden,
)
from srl_agents.llm.backends.chat_backend import Usage
from srl_envs.loading import needed_by
from srl_train.errors import ConfigError

if TYPE_CHECKING:
    from core_srl.managers.shared_weights import SharedWeights


@dataclass
class _Node:
    settings: NodeSettings
    conversation: Any
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held by whoever speaks with it."""
    usage: Usage = field(default_factory=Usage)


class SharedLLMManager:
    """Nodes that converse with one model, whose weights they share.

    A node has its own system prompt, sampling and adapter, and remembers what was said. Threads may
    ask for different nodes at the same time.
    """

    def __init__(self, config: LLMConfig) -> None:
        """The model is loaded, or the client of its API made, at once.

        Raises BackendError, a RuntimeError: "Model loading failed" or "GPU memory insufficient",
        or what an API lacks; and PolicyError, a ValueError, for a temperature that the API does not
        take.
        """
        if not isinstance(config, LLMConfig):
            raise ConfigError(f"config is a {type(config).__name__}: give a LLMConfig")
        self.config = config
        self._model: SharedWeights | ApiConversations
        if config.backend is LLMBackend.HUGGINGFACE:
            with needed_by("a manager of a Hugging Face model"):
                from core_srl.managers.shared_weights import SharedWeights
            self._model = SharedWeights(config)
        else:
            self._model = ApiConversations(config)
        self._nodes: dict[str, _Node] = {}

    @property
    def backend(self) -> Any:
        """What answers: a HuggingFaceBackend, whose `model` is the module, or a ChatModel."""
        return self._model.backend

    def register_node(self, node_id: str, node_config: Mapping[str, Any] | None = None) -> None:
        """A node whose conversation has not begun; one of that name begins anew.

        `node_config` may have system_prompt, adapter (a PEFT folder or hub name; of a vLLM server,
        the name it serves one by), seed, temperature, top_p, top_k and max_new_tokens. Raises
        ConfigError for other settings, and what the model raises for those it does not take.
        """
        text("node_id", node_id)
        settings = node_settings(node_id, node_config, self.config.sampling)
        former = self._nodes.get(node_id)
        self._nodes[node_id] = _Node(settings, self._model.start(settings))
        if former is not None:
            with former.lock:
                self._model.leave(former.conversation)

    def generate_for_node(self, node_id: str, prompt: str, **kwargs: Any) -> LLMResponse:
        """The model's answer to a prompt that goes on with the node's conversation.

        `kwargs` are sampling settings for this answer: temperature, top_p, top_k, max_new_tokens.
        Where it fails the conversation is as it was before. Raises ConfigError for an unknown node;
        BackendError where the model fails, with an API also its SDK's own error, and for a
        conversation that has reached max_length.
        """
        if text("node_id", node_id) not in self._nodes:
            known = ", ".join(self._nodes) or "none yet"
            raise ConfigError(f"node {node_id!r} is not registered: there is {known}")
        if not text("prompt", prompt).strip():
            raise ConfigError(f"prompt is {prompt!r}: give a text")
        node = self._nodes[node_id]
        sampling = overridden(node.settings.sampling, kwargs)
        with node.lock:
            response, node.conversation = self._model.answer(node.conversation, prompt, sampling)
            node.usage.add(response)
        return response

    def update_shared_parameters(
        self, gradients: Mapping[str, Any], learning_rate: float = 1e-4
    ) -> dict[str, Any]:
        """One step on the shared weights, for all nodes at once, as config.update_strategy says.

        `gradients` has tensors by the names of `backend.model.named_parameters()`. Returns version,
        parameters (how many were moved), gradient_norm, learning_rate and affected_nodes. Raises
        UpdateError, and changes nothing, for gradients that do not fit or are not finite, frozen
        weights, and models behind an API.
        """
        done = self._model.update(gradients, learning_rate)
        return done | {"learning_rate": learning_rate, "affected_nodes": list(self._nodes)}

    def get_global_stats(self) -> dict[str, Any]:
        """Requests and tokens in all and by node, updates, and the weights' version.

        Tokens that a server did not count are not in the sums.
        """
        usage = {
            name: {
                "requests": node.usage.answers,
                "prompt_tokens": node.usage.prompt_tokens,
                "completion_tokens": node.usage.completion_tokens,
            }
            for name, node in list(self._nodes.items())  # others may register meanwhile
        }
        total = {
            f"total_{what}": sum(node[what] for node in usage.values())
            for what in ("requests", "prompt_tokens", "completion_tokens")
        }
        return {
            "llm_model": self._model.name,
            "llm_backend": self.config.backend.value,
            "weights_version": self._model.version,
            "total_updates": self._model.version or 0,
            "registered_nodes_count": len(usage),
            **total,
            "node_usage_stats": usage,
        }


def create_qwen3_manager(model_name: str, device: str = "auto") -> SharedLLMManager:
    """A manager of a Qwen model for general use: temperature 0.7, 32,768 tokens at most."""
    return SharedLLMManager(LLMConfig(model_name=model_name, device=device))


def create_qwen_coder_manager(model_name: str, device: str = "auto") -> SharedLLMManager:
    """A manager of a Qwen model for programs: temperature 0.3, 16,384 tokens at most."""
    return SharedLLMManager(
        LLMConfig(model_name=model_name, device=device, max_length=16384, temperature=0.3)
    )


def create_qwen_math_manager(model_name: str, device: str = "auto") -> SharedLLMManager:
    """A manager of a Qwen model for mathematics: temperature 0.2, 8,192 tokens at most."""
    return SharedLLMManager(
        LLMConfig(model_name=model_name, device=device, max_length=8192, temperature=0.2)
    )


def create_llama3_manager(model_name: str, device: str = "auto") -> SharedLLMManager:
    """A manager of a Llama 3 model: temperature 0.7, 131,072 tokens at most."""
    return SharedLLMManager(LLMConfig(model_name=model_name, device=device, max_length=131072))


def create_openai_manager(model_name: str, api_key: str | None = None) -> SharedLLMManager:
    """A manager of a model behind OpenAI's API, or a server at OPENAI_BASE_URL; temperature 0.7.

    A model that takes no temperature is given nodes with temperature 1, which is not sent.
    """
    return SharedLLMManager(
        LLMConfig(backend=LLMBackend.OPENAI_API, model_name=model_name, api_key=api_key)
    )


def create_claude_manager(model_name: str, api_key: str | None = None) -> SharedLLMManager:
    """A manager of a model behind Anthropic's API, which knows no temperature but 1."""
    return SharedLLMManager(
        LLMConfig(
            backend=LLMBackend.ANTHROPIC, model_name=model_name, api_key=api_key, temperature=1.0
        )
    )
