"""Backend for OpenAI's chat completions API and compatible servers."""

from __future__ import annotations

import os
from typing import Any

from srl_agents.errors import BackendError, PolicyError
from srl_agents.llm.backends.chat_backend import ApiModel, ChatAnswer, ChatRequest, counted, named
from srl_agents.llm.backends.network import failures_of, no_answer
from srl_agents.llm.sampling import Sampling

HOSTS = ("api.openai.com", ".openai.azure.com")  # OpenAI's own, as opposed to compatible ones
HOTTEST = 2.0  # the highest temperature that the API takes


class OpenAIModel(ApiModel):
    """Model behind chat completions, through the SDK `openai`.

    The key is OPENAI_API_KEY and the server OPENAI_BASE_URL by default. A seed makes the same
    answer likely, not certain.
    """

    provider = "openai"
    server_in = "OPENAI_BASE_URL"
    takes_seed = True

    def _connected(self, **settings: Any) -> Any:
        if not (settings["api_key"] or os.environ.get("OPENAI_API_KEY")):
            raise BackendError(
                f"{self.name} needs a key: set OPENAI_API_KEY (any text for a server of your own, "
                "in OPENAI_BASE_URL, that asks for none)"
            )
        return self._sdk.AsyncOpenAI(**settings)

    def check(self, sampling: Sampling) -> None:
        if sampling.top_k:
            raise PolicyError(
                f"{self.name}: top_k is {sampling.top_k}, which this API does not know: leave "
                "it at 0, or cut by top_p"
            )
        if sampling.temperature > HOTTEST:
            raise PolicyError(
                f"{self.name}: temperature is {sampling.temperature}: give 0 to {HOTTEST:g}"
            )

    async def _ask(self, request: ChatRequest) -> ChatAnswer:
        settings = arguments(request.sampling, str(self._client.base_url.host))
        if request.seed is not None:
            settings["seed"] = request.seed
        with failures_of(self._sdk, self._sdk.OpenAIError, self.name):
            came = await self._client.chat.completions.create(
                model=self._model, messages=list(map(dict, request.messages)), **settings
            )
        try:
            return _answer_of(came)
        except (AttributeError, TypeError, ValueError) as error:
            raise no_answer(self.name, came) from error


open_model = OpenAIModel


def _answer_of(came: Any) -> ChatAnswer:
    [choice, *_], usage = came.choices, came.usage
    text = choice.message.content or choice.message.refusal or ""
    if not isinstance(text, str):
        raise TypeError(f"the message's content is {type(text).__name__}")
    return ChatAnswer(
        text=text,
        finish_reason=named(choice.finish_reason),
        ended=choice.finish_reason == "stop" and not choice.message.refusal,
        model=named(came.model),
        prompt_tokens=counted(usage.prompt_tokens) if usage else None,
        completion_tokens=counted(usage.completion_tokens) if usage else None,
    )


def arguments(sampling: Sampling, host: str) -> dict[str, Any]:
    """Return the sampling settings as arguments of the API on `host`.

    OpenAI's reasoning models refuse temperature and top_p with any value, so defaults are left
    out there. Other servers have other defaults and the old name of the limit.
    """
    given = {"temperature": sampling.temperature, "top_p": sampling.top_p}
    if host.endswith(HOSTS):
        own = {name: value for name, value in given.items() if value != 1.0}
        return {"max_completion_tokens": sampling.max_new_tokens, **own}
    return {"max_tokens": sampling.max_new_tokens, **given}
