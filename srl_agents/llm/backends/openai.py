"""Backend for OpenAI's chat completions API and compatible servers."""

from __future__ import annotations

import os
from typing import Any

from srl_agents.errors import BackendError, PolicyError
from srl_agents.llm.backends.chat_backend import (
    ApiModel,
    ChatAnswer,
    ChatRequest,
    server_text,
    token_count,
)
from srl_agents.llm.backends.network import failures_of, no_answer
from srl_agents.llm.sampling import Sampling

HOSTS = ("api.openai.com", ".openai.azure.com")
"""Ends of the host names of OpenAI's own servers."""
MAX_TEMPERATURE = 2.0


class OpenAIModel(ApiModel):
    """Model behind chat completions, through the SDK `openai`.

    The key is OPENAI_API_KEY and the server OPENAI_BASE_URL by default. A seed makes the same
    answer likely, not certain. `answer` raises PolicyError for a top_k, or a temperature above 2.
    """

    provider = "openai"
    server_in = "OPENAI_BASE_URL"
    takes_seed = True

    def _connected(self, **settings: Any) -> Any:
        if not (settings["api_key"] or os.environ.get("OPENAI_API_KEY")):
            raise BackendError(
                f"{self.name} needs a key: set OPENAI_API_KEY (to any text for a server in "
                "OPENAI_BASE_URL that requires none)"
            )
        return self._sdk.AsyncOpenAI(**settings)

    def check(self, sampling: Sampling) -> None:
        if sampling.top_k:
            raise PolicyError(
                f"{self.name}: top_k must be 0, because this API has no such setting, got "
                f"{sampling.top_k}: use top_p"
            )
        if sampling.temperature > MAX_TEMPERATURE:
            raise PolicyError(
                f"{self.name}: temperature must be 0 to {MAX_TEMPERATURE:g}, got "
                f"{sampling.temperature}"
            )

    async def _ask(self, request: ChatRequest) -> ChatAnswer:
        settings = arguments(request.sampling, str(self._client.base_url.host))
        if request.seed is not None:
            settings["seed"] = request.seed
        with failures_of(self._sdk, self._sdk.OpenAIError, self.name):
            reply = await self._client.chat.completions.create(
                model=self._model, messages=list(map(dict, request.messages)), **settings
            )
        try:
            [choice, *_], usage = reply.choices, reply.usage
            text = choice.message.content or choice.message.refusal or ""
            if not isinstance(text, str):
                raise TypeError(f"the message's content is {type(text).__name__}")
            return ChatAnswer(
                text=text,
                finish_reason=server_text(choice.finish_reason),
                ended=choice.finish_reason == "stop" and not choice.message.refusal,
                model=server_text(reply.model),
                prompt_tokens=token_count(usage.prompt_tokens) if usage else None,
                completion_tokens=token_count(usage.completion_tokens) if usage else None,
            )
        except (AttributeError, TypeError, ValueError) as error:
            raise no_answer(self.name, reply) from error


open_model = OpenAIModel


def arguments(sampling: Sampling, host: str) -> dict[str, Any]:
    """Return the sampling settings as keyword arguments of a chat completion on the server `host`.

    The keys are temperature, top_p and max_tokens. On OpenAI's servers (HOSTS), the last one is
    max_completion_tokens, and a temperature or top_p of 1 is omitted: reasoning models reject both.
    """
    settings = {"temperature": sampling.temperature, "top_p": sampling.top_p}
    if host.endswith(HOSTS):
        changed = {name: value for name, value in settings.items() if value != 1.0}
        return {"max_completion_tokens": sampling.max_new_tokens, **changed}
    return {"max_tokens": sampling.max_new_tokens, **settings}
