"""Backend for Anthropic's Messages API."""

from __future__ import annotations

from typing import Any

from srl_agents.errors import BackendError, PolicyError
from srl_agents.llm.backends.chat_backend import (
    CONCURRENCY,
    RETRIES,
    TIMEOUT,
    Asking,
    ChatAnswer,
    ChatRequest,
    Usage,
)
from srl_agents.llm.backends.retrying import RetryPolicy, failures_of, no_answer, told
from srl_agents.llm.sampling import Sampling
from srl_envs.extras import needed_by


class AnthropicModel:
    """A model behind the Messages API, by the SDK `anthropic`.

    The key is ANTHROPIC_API_KEY and the server ANTHROPIC_BASE_URL unless they are given; the
    SDK's other credentials (a token, a profile) hold as well. The API has no sampling settings
    since its version 2026-10-21, which SDK 2 speaks, and never had seeds: answers are drawn at
    temperature 1, and only their length is ours.
    """

    takes_seed = False

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        concurrency: int = CONCURRENCY,
        timeout: float = TIMEOUT,
        retries: RetryPolicy = RETRIES,
    ) -> None:
        """`timeout` is in seconds, for one attempt; `retries` bounds all of them together.

        Raises BackendError where the SDK or a key is missing.
        """
        self.name = f"anthropic:{model}"
        self.usage = Usage()
        self._model = model
        self._asking = Asking(self.name, self._ask, self.usage, concurrency, retries)
        with needed_by(self.name, BackendError):
            import anthropic
        self._sdk = anthropic
        try:
            self._client: Any = anthropic.AsyncAnthropic(
                api_key=api_key, base_url=base_url, max_retries=0, timeout=timeout
            )
        except anthropic.AnthropicError as error:  # credentials that are there and of no use
            raise told(self.name, error) from error
        client = self._client
        if not (client.api_key or client.auth_token or client.credentials):
            raise BackendError(f"{self.name} needs a key: set ANTHROPIC_API_KEY")

    def check(self, sampling: Sampling) -> None:
        """Raise PolicyError for settings that the API does not know."""
        for name, only in (("temperature", 1), ("top_p", 1), ("top_k", 0)):
            if (value := getattr(sampling, name)) != only:
                raise PolicyError(
                    f"{self.name}: {name} is {value}, and this API takes no such setting: give its "
                    f"agent a sampling of its own with {name} {only}"
                )

    async def answer(self, request: ChatRequest) -> ChatAnswer:
        """What the model says; see ChatModel."""
        self.check(request.sampling)
        if request.seed is not None:
            raise PolicyError(
                f"{self.name}: seed is {request.seed}, and this API takes none: give None"
            )
        return await self._asking.answer(request)

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


def _answer_of(came: Any) -> ChatAnswer:
    usage = came.usage
    cached = (usage.cache_creation_input_tokens or 0) + (usage.cache_read_input_tokens or 0)
    return ChatAnswer(
        text="".join(block.text for block in came.content if block.type == "text"),
        finish_reason=str(came.stop_reason),
        ended=came.stop_reason == "end_turn",
        model=str(came.model),
        prompt_tokens=usage.input_tokens + cached,
        completion_tokens=usage.output_tokens,
    )
