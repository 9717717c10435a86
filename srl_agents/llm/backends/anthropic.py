"""Backend for Anthropic's Messages API."""

from __future__ import annotations

from typing import Any

from srl_agents.errors import BackendError, PolicyError
from srl_agents.llm.backends.chat_backend import (
    ApiModel,
    ChatAnswer,
    ChatRequest,
    server_text,
    token_count,
)
from srl_agents.llm.backends.network import failures_of, no_answer, sdk_error
from srl_agents.llm.sampling import Sampling


class AnthropicModel(ApiModel):
    """Model behind the Messages API, through the SDK `anthropic`.

    The key is ANTHROPIC_API_KEY and the server ANTHROPIC_BASE_URL by default. `answer` raises
    PolicyError for a seed, for a temperature or top_p other than 1, and for a top_k.
    """

    provider = "anthropic"
    server_in = "ANTHROPIC_BASE_URL"
    takes_seed = False

    def _connected(self, **settings: Any) -> Any:
        try:
            client = self._sdk.AsyncAnthropic(**settings)
        except self._sdk.AnthropicError as error:  # invalid credentials
            raise sdk_error(self.name, error) from error
        if not (client.api_key or client.auth_token or client.credentials):
            raise BackendError(f"{self.name} needs a key: set ANTHROPIC_API_KEY")
        return client

    def check(self, sampling: Sampling) -> None:
        for name, only in (("temperature", 1), ("top_p", 1), ("top_k", 0)):
            if (value := getattr(sampling, name)) != only:
                raise PolicyError(
                    f"{self.name}: {name} must be {only}, because this API has no such setting, "
                    f"got {value}: set it for this agent"
                )

    async def _ask(self, request: ChatRequest) -> ChatAnswer:
        rules = [one["content"] for one in request.messages if one["role"] == "system"]
        # The API rejects empty messages, and reads consecutive user messages as one.
        turns = [
            dict(one)
            for one in request.messages
            if one["role"] != "system" and one["content"].strip()
        ]
        system = {"system": "\n\n".join(rules)} if rules else {}
        with failures_of(self._sdk, self._sdk.AnthropicError, self.name):
            reply = await self._client.messages.create(
                model=self._model,
                messages=turns,
                max_tokens=request.sampling.max_new_tokens,
                **system,
            )
        try:
            usage = reply.usage
            cached = usage.cache_creation_input_tokens or 0
            cached += usage.cache_read_input_tokens or 0
            return ChatAnswer(
                text="".join(block.text for block in reply.content if block.type == "text"),
                finish_reason=server_text(reply.stop_reason),
                ended=reply.stop_reason == "end_turn",
                model=server_text(reply.model),
                prompt_tokens=token_count(usage.input_tokens + cached),
                completion_tokens=token_count(usage.output_tokens),
            )
        except (AttributeError, TypeError, ValueError) as error:
            raise no_answer(self.name, reply) from error


open_model = AnthropicModel
