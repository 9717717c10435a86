"""Backend for Anthropic's Messages API."""

from __future__ import annotations

from typing import Any

from srl_agents.errors import BackendError, PolicyError
from srl_agents.llm.backends.chat_backend import ApiModel, ChatAnswer, ChatRequest, counted, named
from srl_agents.llm.backends.network import failures_of, no_answer, told
from srl_agents.llm.sampling import Sampling


class AnthropicModel(ApiModel):
    """Model behind the Messages API, through the SDK `anthropic`.

    The key is ANTHROPIC_API_KEY and the server ANTHROPIC_BASE_URL by default. The API has no
    seeds and, since its version 2026-10-21, no sampling settings except the length.
    """

    provider = "anthropic"
    server_in = "ANTHROPIC_BASE_URL"
    takes_seed = False

    def _connected(self, **settings: Any) -> Any:
        try:
            client = self._sdk.AsyncAnthropic(**settings)
        except self._sdk.AnthropicError as error:  # credentials that are there and of no use
            raise told(self.name, error) from error
        if not (client.api_key or client.auth_token or client.credentials):
            raise BackendError(f"{self.name} needs a key: set ANTHROPIC_API_KEY")
        return client

    def check(self, sampling: Sampling) -> None:
        for name, only in (("temperature", 1), ("top_p", 1), ("top_k", 0)):
            if (value := getattr(sampling, name)) != only:
                raise PolicyError(
                    f"{self.name}: {name} is {value}, and this API takes no such setting: give its "
                    f"agent a sampling of its own with {name} {only}"
                )

    async def _ask(self, request: ChatRequest) -> ChatAnswer:
        rules = [said["content"] for said in request.messages if said["role"] == "system"]
        # The API takes no empty messages; the user's turns around one are read as one turn.
        turns = [
            dict(said)
            for said in request.messages
            if said["role"] != "system" and said["content"].strip()
        ]
        system = {"system": "\n\n".join(rules)} if rules else {}
        with failures_of(self._sdk, self._sdk.AnthropicError, self.name):
            came = await self._client.messages.create(
                model=self._model,
                messages=turns,
                max_tokens=request.sampling.max_new_tokens,
                **system,
            )
        try:
            return _answer_of(came)
        except (AttributeError, TypeError, ValueError) as error:
            raise no_answer(self.name, came) from error


open_model = AnthropicModel


def _answer_of(came: Any) -> ChatAnswer:
    usage = came.usage
    cached = (usage.cache_creation_input_tokens or 0) + (usage.cache_read_input_tokens or 0)
    return ChatAnswer(
        text="".join(block.text for block in came.content if block.type == "text"),
        finish_reason=named(came.stop_reason),
        ended=came.stop_reason == "end_turn",
        model=named(came.model),
        prompt_tokens=counted(usage.input_tokens + cached),
        completion_tokens=counted(usage.output_tokens),
    )
