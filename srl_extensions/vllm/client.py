"""Client of one running vLLM server: completions, adapters, weights, health."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from srl_agents.errors import BackendError, ServerUnavailable
from srl_agents.llm.backends import background_loop
from srl_agents.llm.backends.network import failures_of, http_client, no_answer, within
from srl_agents.llm.sampling import Sampling
from srl_envs.loading import needed_by
from srl_envs.untrusted import printable

DEADLINE = 600.0
"""Seconds for one request with all attempts: long lists wait for their turn in the server."""
TIMEOUT = 300.0
"""Seconds for one attempt."""
MOST_BYTES = 256 * 2**20
"""Limit of a reply: 64 prompts with 32,768 tokens of about 100 bytes each take 200 MiB."""
MAX_RETRIES = 3
"""Number of retries, which take about 3 seconds: a server that takes no connection may restart."""
LOWEST, ROUNDING = -1e4, 1e-3
"""Limits of a log-probability: vLLM writes -9999 for minus infinity, and 0 may be rounded up."""
ANSWERS = "answers"
"""Argument of the logits processor plugins/answer_trie.py."""


@dataclass(frozen=True)
class Sampled:
    """Completion as sampled by a server."""

    ids: tuple[int, ...]
    """At least one token; the last is a stop token if `ended`."""
    logprobs: tuple[float, ...]
    """Natural log-probability of each token, as the server computed it; unused at temperature 0."""
    ended: bool
    """False if `max_tokens` cut the answer."""


class VLLMClient:
    """Client of one server, on top of the SDK `openai`, for use in any event loop.

    The SDK retries temporary failures. All methods but `is_healthy` and `close` raise BackendError
    on failure, in particular ServerUnavailable if the server is unreachable or its engine dead.
    """

    def __init__(
        self,
        url: str,
        *,
        deadline: float = DEADLINE,
    ) -> None:
        """Create the client of the server at `url`, such as http://127.0.0.1:8000.

        The first request opens a connection. `deadline` is the time limit in seconds of a request
        with its retries. Raises BackendError if the SDK is not installed.
        """
        self.url = self.name = url.rstrip("/").removesuffix("/v1")
        with needed_by("a vLLM server", BackendError):
            import openai
        self._sdk = openai
        self._deadline = deadline
        self._client: Any = openai.AsyncOpenAI(
            base_url=f"{self.url}/v1",
            api_key="none",
            max_retries=MAX_RETRIES,
            timeout=TIMEOUT,
            http_client=http_client(openai, self.url, most_bytes=MOST_BYTES),
        )

    async def models(self) -> list[str]:
        """Return the served names: the base and its adapters."""
        reply = await self._run("get", "/v1/models")
        try:
            return [str(one["id"]) for one in reply["data"]]
        except (TypeError, KeyError) as error:
            raise no_answer(self.name, reply) from error

    async def complete(
        self,
        model: str,
        prompts: Sequence[Sequence[int]],
        *,
        sampling: Sampling,
        max_tokens: int,
        stop_ids: Collection[int],
        answers: tuple[tuple[int, ...], ...] | None = None,
    ) -> list[Sampled]:
        """Return one completion for each prompt, in the order of `prompts`, from a single call.

        Args:
            model: Served name.
            prompts: Token ids of each prompt.
            sampling: Temperature, top-p and top-k.
            max_tokens: Longest completion.
            stop_ids: The only tokens that end a completion.
            answers: The only legal completions, with their stop tokens; None allows all.

        Raises:
            ServerUnavailable: If the server is unreachable or dead, or does not know `model`.
            BackendError: After another failure or an invalid reply.
        """
        body = {
            "model": model,
            "prompt": [list(prompt) for prompt in prompts],
            "max_tokens": max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "stop_token_ids": sorted(stop_ids),
            "ignore_eos": True,  # `stop_ids` contains the token if it ends an answer.
            "skip_special_tokens": False,
            "logprobs": 0,
            "return_token_ids": True,
        }
        if answers is not None:
            body["vllm_xargs"] = {ANSWERS: json.dumps(answers)}
        try:
            reply = await self._run("post", "/v1/completions", body)
        except BackendError as error:
            if isinstance(error.__cause__, self._sdk.NotFoundError):
                raise ServerUnavailable(
                    f"{self.name} does not know {model!r}: the server was restarted, or the name "
                    "was never loaded"
                ) from error
            raise
        return _sampled(self.name, reply, model, len(prompts), max_tokens)

    async def load_adapter(self, name: str, folder: Path) -> None:
        """Serve the PEFT adapter of `folder` (on the server's disk) as `name`.

        `name` must never have been used on the server, because it identifies cached prefixes.
        """
        body = {"lora_name": name, "lora_path": str(folder)}
        await self._run("post", "/v1/load_lora_adapter", body)

    async def unload_adapter(self, name: str) -> None:
        """Unload an adapter; it must have no open requests, and its folder must still exist."""
        await self._run("post", "/v1/unload_lora_adapter", {"lora_name": name})

    async def update_weights(self, folder: Path) -> None:
        """Replace the base's weights by the safetensors files of `folder` (on the server's disk).

        Open requests end with the old weights, new ones wait, and the prefix cache is reset. After
        a failure, weights may be mixed, and the server may stay paused until an update succeeds.
        """
        call = {"method": "publish_weights", "args": [str(folder)]}
        await self._run("post", "/pause?mode=wait")
        await self._run("post", "/collective_rpc", call, max_retries=0)
        await self._run("post", "/reset_prefix_cache")
        await self._run("post", "/resume")

    async def check_ready(self, model: str, seconds: float | None = None) -> None:
        """Request one token from `model`, in one attempt.

        Raises:
            ServerUnavailable: If the server takes no connection or its engine is dead.
            BackendError: If the server does not complete a token within `seconds` (None: the
                deadline of requests), or refuses the request (RejectedError).
        """
        body = {"model": model, "prompt": [0], "max_tokens": 1, "logprobs": 0,
                "return_token_ids": True, "ignore_eos": True}  # fmt: skip
        limit = self._deadline if seconds is None else seconds
        request = self._ask("post", "/v1/completions", body, max_retries=0)
        reply = await background_loop.await_(within(limit, self.name, request))
        _sampled(self.name, reply, model, 1, 1)

    async def is_healthy(self, seconds: float) -> bool | None:
        """Return True if the engine runs, False for an error status, None without a reply."""
        request = self._client.get(f"{self.url}/health", cast_to=str, options={"max_retries": 0})
        try:
            await background_loop.await_(within(seconds, self.name, request))
        except (BackendError, self._sdk.APIConnectionError):
            return None
        except self._sdk.APIStatusError:
            return False
        return True

    async def close(self) -> None:
        """Close the connections; later requests fail."""
        await background_loop.await_(self._client.close())

    async def _run(self, method: str, path: str, body: Any = None, **options: int) -> Any:
        request = self._ask(method, path, body, **options)
        return await background_loop.await_(within(self._deadline, self.name, request))

    async def _ask(self, method: str, path: str, body: Any = None, **options: int) -> Any:
        if self._client.is_closed():
            raise BackendError(f"{self.name}: this client was closed")
        send = getattr(self._client, method)
        content = {} if body is None else {"body": body}
        try:
            with failures_of(self._sdk, self._sdk.OpenAIError, self.name):
                return await send(f"{self.url}{path}", cast_to=object, options=options, **content)
        except BackendError as error:
            failed_inside = isinstance(error.__cause__, self._sdk.InternalServerError)
            if failed_inside and await self.is_healthy(TIMEOUT) is False:
                raise ServerUnavailable(f"{error}; its engine is dead") from error
            raise


class _Logprobs(BaseModel):
    token_logprobs: list[Annotated[float, Field(ge=LOWEST, le=ROUNDING)]]


class _Choice(BaseModel):
    model_config = ConfigDict(strict=True)
    index: int
    token_ids: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=1)]
    logprobs: _Logprobs
    finish_reason: Literal["stop", "length"]


class _Reply(BaseModel):
    model: str
    choices: list[_Choice]


def _sampled(name: str, body: Any, model: str, count: int, longest: int) -> list[Sampled]:
    try:
        reply = _Reply.model_validate(body)
    except ValueError as error:
        raise no_answer(name, body) from error
    if reply.model != model:
        raise BackendError(
            f"{name}: {printable(reply.model)[:200]!r} answered instead of {model!r}: is another "
            "server at this address?"
        )
    choices = sorted(reply.choices, key=lambda choice: choice.index)
    sampled = [
        Sampled(
            tuple(one.token_ids), tuple(one.logprobs.token_logprobs), one.finish_reason == "stop"
        )
        for one in choices
    ]
    fits = all(len(one.ids) == len(one.logprobs) <= longest for one in sampled)
    if [choice.index for choice in choices] != list(range(count)) or not fits:
        raise no_answer(name, body)
    return sampled
