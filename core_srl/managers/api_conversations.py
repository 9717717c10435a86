"""Conversations of a manager's nodes with a model behind an API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from core_srl.errors import as_documented
from core_srl.managers.llm_config import LLMBackend, LLMConfig, LLMResponse, NodeSettings
from srl_agents.errors import BackendError
from srl_agents.llm.backends.anthropic import AnthropicModel
from srl_agents.llm.backends.chat_backend import (
    ChatModel,
    ChatRequest,
    Message,
    seed_from,
)
from srl_agents.llm.backends.openai import OpenAIModel
from srl_agents.llm.sampling import Sampling
from srl_agents.rollout.event_loop import run
from srl_train.errors import ConfigError, UpdateError


@dataclass(frozen=True, eq=False)
class ApiConversation:
    """What a node has said and heard."""

    model: ChatModel
    rng: np.random.Generator
    messages: tuple[Message, ...]
    length: int = 0
    """Its tokens so far, as the server counted them; those of servers that do not count are 0."""


class ApiConversations:
    """Holds conversations with one model behind an API, whose weights nobody here can change."""

    version = None

    def __init__(self, config: LLMConfig) -> None:
        """Raises BackendError where the SDK or a key is missing, and PolicyError for a temperature
        that the API does not take."""
        self._open, self._longest = _MODELS[config.backend], config.max_length
        self._config = config
        self.backend = self._open(config, config.model_name)
        self.backend.check(config.sampling)
        self.name = self.backend.name

    def start(self, settings: NodeSettings) -> ApiConversation:
        """A conversation that has not begun.

        Raises PolicyError for sampling settings that the API does not know, and ConfigError for an
        adapter where no adapters are served.
        """
        model = self.backend
        if settings.adapter is not None:
            if self._config.backend is not LLMBackend.VLLM:
                raise ConfigError(
                    f"adapter is {settings.adapter!r}, and {self.name} has none: leave it out"
                )
            model = self._open(self._config, settings.adapter)
        model.check(settings.sampling)
        rules = settings.system_prompt.strip()
        opening: tuple[Message, ...] = ({"role": "system", "content": rules},) if rules else ()
        return ApiConversation(model, np.random.default_rng(settings.seed), opening)

    def answer(
        self, state: ApiConversation, prompt: str, sampling: Sampling
    ) -> tuple[LLMResponse, ApiConversation]:
        """What the model says next, and the conversation with it.

        Raises BackendError, and the SDK's own error, where the API fails, and BackendError for a
        conversation of max_length.
        """
        room = self._longest - state.length
        if room < 1:
            raise BackendError(
                f"the conversation has {state.length} tokens of max_length {self._longest}: "
                "register the node again, which begins anew"
            )
        sampling = replace(sampling, max_new_tokens=min(sampling.max_new_tokens, room))
        state.model.check(sampling)
        messages = (*state.messages, {"role": "user", "content": prompt.strip()})
        seed = seed_from(state.rng) if state.model.takes_seed else None
        with as_documented():
            answer = run(state.model.answer(ChatRequest(messages, sampling, seed)))
        said = {"role": "assistant", "content": answer.text}
        length = (answer.prompt_tokens or 0) + (answer.completion_tokens or 0)
        response = LLMResponse(**vars(answer))
        return response, replace(state, messages=(*messages, said), length=length)

    def leave(self, state: ApiConversation) -> None:
        """The conversation is over; nothing was kept for it."""

    def update(self, gradients: Mapping[str, Any], learning_rate: float) -> dict[str, Any]:
        """Raises UpdateError."""
        raise UpdateError(
            f"the weights of {self.name} are out of reach, so gradients cannot be applied: only a "
            f"manager with {LLMBackend.HUGGINGFACE} has weights to update"
        )


_MODELS: Mapping[LLMBackend, Callable[[LLMConfig, str], ChatModel]] = {
    LLMBackend.OPENAI_API: lambda config, model: OpenAIModel(model, api_key=config.api_key),
    LLMBackend.ANTHROPIC: lambda config, model: AnthropicModel(model, api_key=config.api_key),
    LLMBackend.VLLM: lambda config, model: OpenAIModel(
        model,
        # A server of one's own is never shown the key of OpenAI's.
        api_key=config.api_key or "none",
        base_url=f"http://localhost:{config.port}/v1",
    ),
}
