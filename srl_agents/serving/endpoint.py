"""Client of one running vLLM server: completions, adapters, weights, health."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from srl_agents.errors import BackendError, ServerUnavailable
from srl_agents.llm.backends import background_loop
from srl_agents.llm.backends.http_client import http_client
from srl_agents.llm.backends.retrying import (
    RetryPolicy,
    TransientError,
    failures_of,
    no_answer,
)
from srl_agents.llm.sampling import Sampling
from srl_agents.serving.plugins.gate import OPEN
from srl_envs.loading.extras import needed_by
from srl_envs.loading.untrusted import printable

T = TypeVar("T")
DEADLINE = 600.0
"""Seconds for one request with all its attempts: long lists wait for their turn in the server."""
TIMEOUT = 300.0
"""Seconds for one attempt."""
MOST_BYTES = 256 * 2**20
"""Limit of a reply: 64 prompts with 32,768 tokens of about 100 bytes each take 200 MiB."""
UNREACHABLE = 5.0
"""Seconds for which a server that takes no connection is tried again, for it may just restart."""
LOWEST, ROUNDING = -1e4, 1e-3
"""Of a log-probability: vLLM writes -9999 for minus infinity, and 0 may come out a bit higher."""
ANSWERS = "answers"
"""The argument that the logits processor in srl_agents/serving/plugins reads."""


class WrongModel(BackendError):
    """The server answered with another model than the one that was asked."""


@dataclass(frozen=True)
class Sampled:
    """One completion as it was sampled."""

    ids: tuple[int, ...]
    """At least one token; the last is a stop token where `ended`."""
    logprobs: tuple[float, ...]
    """Natural log-probability of each token, as the server computed it; at temperature 0 that is
    not the one of the distribution it was drawn from."""
    ended: bool
    """False where `max_tokens` cut the answer."""


class Endpoint:
    """One running vLLM server, asked by the SDK `openai`.

    All methods may be awaited in any event loop. What may pass (see RetryPolicy) is tried again
    within `deadline`; a server that stays unreachable, or whose engine is dead, is
    ServerUnavailable, everything else that fails BackendError.
    """

    def __init__(
        self,
        url: str,
        *,
        deadline: float = DEADLINE,
        timeout: float = TIMEOUT,
        api_key: str | None = None,
        retries: RetryPolicy | None = None,
    ) -> None:
        """`url` is the server's, such as http://127.0.0.1:8000; `deadline` (all attempts) and
        `timeout` (one attempt) are in seconds. `retries` replaces the whole policy.

        Raises BackendError where the SDK is missing.
        """
        self.url = url.rstrip("/").removesuffix("/v1")
        self.name = self.url
        """The server's in messages and statistics."""
        with needed_by("a vLLM server", BackendError):
            import openai
        self._sdk = openai
        self._retries = retries or RetryPolicy(deadline=deadline, unreachable=UNREACHABLE)
        self._client: Any = openai.AsyncOpenAI(
            base_url=f"{self.url}/v1",
            api_key=api_key or "none",
            max_retries=0,
            timeout=timeout,
            http_client=http_client(openai, self.url, most_bytes=MOST_BYTES),
        )

    async def models(self) -> list[str]:
        """The names that are served: the base and its adapters."""

        async def attempt() -> list[str]:
            came = await self._ask("get", "/v1/models")
            try:
                return [str(one["id"]) for one in came["data"]]
            except (TypeError, KeyError) as error:
                raise no_answer(self.name, came) from error

        return await self._run(attempt)

    async def complete(
        self,
        model: str,
        prompts: Sequence[Sequence[int]],
        *,
        sampling: Sampling,
        max_tokens: int,
        stop_ids: Collection[int],
        answers: tuple[tuple[int, ...], ...] | None = None,
        seed: int | None = None,
    ) -> list[Sampled]:
        """One completion per prompt (token ids), in order, by one call of the served name `model`.

        `sampling` gives temperature, top-p and top-k. Only `stop_ids` end an answer; with `answers`
        (whole ones, the stop token that ends them included) nothing else is written. `seed` starts
        all prompts of the call alike.

        Raises WrongModel where another model answered, and ServerUnavailable also where the server
        does not know the name, as after it was started anew.
        """
        body = {
            "model": model,
            "prompt": [list(prompt) for prompt in prompts],
            "max_tokens": max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "stop_token_ids": sorted(stop_ids),
            "ignore_eos": True,  # it is among the stop ids where it ends an answer
            "skip_special_tokens": False,
            "logprobs": 0,
            "return_token_ids": True,
        }
        if answers is not None:
            body["vllm_xargs"] = {ANSWERS: json.dumps(answers)}
        if seed is not None:
            body["seed"] = seed

        async def attempt() -> list[Sampled]:
            came = await self._ask("post", "/v1/completions", body)
            return _sampled(self.name, came, model, len(prompts), max_tokens)

        try:
            return await self._run(attempt)
        except BackendError as error:
            if isinstance(error.__cause__, self._sdk.NotFoundError):
                raise ServerUnavailable(
                    f"{self.name} does not know {model!r}: it was started anew, or the name was "
                    "never loaded there"
                ) from error
            raise

    async def load_adapter(self, name: str, folder: Path) -> None:
        """Serve the PEFT adapter of `folder` (on the server's own disk) as `name`.

        The name must never have stood for other weights: what the server caches goes by it.
        """
        body = {"lora_name": name, "lora_path": str(folder)}
        await self._change("/v1/load_lora_adapter", body, name, there=True)

    async def unload_adapter(self, name: str) -> None:
        """Serve `name` no more. Requests under way must have ended, and its folder must stay."""
        await self._change("/v1/unload_lora_adapter", {"lora_name": name}, name, there=False)

    async def update_weights(self, folder: Path) -> None:
        """Replace the base's weights by the safetensors files of `folder` (on the server's disk).

        Requests under way end with the old weights, and new ones wait until the others are there.
        Where it fails the server may hold a part of each: it stays paused, and answers nobody until
        another update has come through or it is started anew.
        """
        call = {"method": "publish_weights", "args": [str(folder)]}

        async def attempt() -> None:
            try:
                await self._ask("post", "/collective_rpc", call)
            except TransientError as error:
                if isinstance(error.__cause__, self._sdk.InternalServerError):
                    raise BackendError(str(error)) from error  # the workers refused the files
                raise

        await self._post("/pause?mode=wait")
        await self._run(attempt)
        await self._post("/reset_prefix_cache")
        await self._post("/resume")

    async def open(self) -> None:
        """Let in those who have the guests' key (plugins/gate.py)."""
        await self._post(OPEN)

    async def check_ready(self, model: str) -> None:
        """Raise BackendError unless one real token comes from `model`, at the first attempt: a
        server may say that it is healthy and fail at its first request."""
        body = {"model": model, "prompt": [0], "max_tokens": 1, "logprobs": 0,
                "return_token_ids": True, "ignore_eos": True}  # fmt: skip

        seconds = self._retries.deadline

        async def attempt() -> None:
            async with asyncio.timeout(seconds):
                _sampled(self.name, await self._ask("post", "/v1/completions", body), model, 1, 1)

        try:
            await background_loop.await_(attempt())
        except TimeoutError as error:
            raise BackendError(f"{self.name}: no answer within {seconds:g} s") from error
        except TransientError as error:
            kind = ServerUnavailable if error.unreachable else BackendError
            raise kind(str(error)) from error

    async def close(self) -> None:
        """Close the connections."""
        await background_loop.await_(self._client.close())

    async def _post(self, path: str) -> Any:
        return await self._run(lambda: self._ask("post", path))

    async def _change(self, path: str, body: Any, name: str, *, there: bool) -> None:
        """Ask for a change after which `name` is served, or is not."""
        tried = False

        async def attempt() -> None:
            nonlocal tried
            again, tried = tried, True
            try:
                await self._ask("post", path, body)
            except TransientError:
                raise
            except BackendError:
                # The attempt before may have come through, and only its reply was lost.
                if not again or (name in await self.models()) is not there:
                    raise

        await self._run(attempt)

    async def _run(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """What `attempt` gives, tried again while its failures may pass."""

        async def patiently() -> T:
            return await self._retries.run(self.name, attempt)

        return await background_loop.await_(patiently())

    async def _ask(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON (or text) that comes for one request."""
        send = getattr(self._client, method)
        content = {} if body is None else {"body": body}
        try:
            with failures_of(self._sdk, self._sdk.OpenAIError, self.name):
                return await send(f"{self.url}{path}", cast_to=object, **content)
        except TransientError as error:
            failed_inside = isinstance(error.__cause__, self._sdk.InternalServerError)
            if failed_inside and not await self._healthy():
                raise TransientError(f"{error}; its engine is dead", unreachable=True) from error
            raise

    async def _healthy(self) -> bool:
        """False where the server itself says that its engine is dead."""
        try:
            await self._client.get(f"{self.url}/health", cast_to=str)
        except self._sdk.APIConnectionError:
            return True  # the next attempt tells
        except self._sdk.APIStatusError:
            return False
        return True


def _sampled(name: str, came: Any, model: str, count: int, longest: int) -> list[Sampled]:
    """The completions of a reply, of `longest` tokens at most, in the order of the prompts."""
    try:
        _check_model(name, came, model)
        choices = sorted(came["choices"], key=lambda choice: choice["index"])
        if [choice["index"] for choice in choices] != list(range(count)):
            raise ValueError(f"{len(choices)} choices for {count} prompts")
        return [
            _completion(choice["token_ids"], choice["logprobs"]["token_logprobs"], choice, longest)
            for choice in choices
        ]
    except (TypeError, KeyError, ValueError) as error:
        raise no_answer(name, came) from error


def _completion(ids: Any, logprobs: Any, choice: Any, longest: int) -> Sampled:
    reason = choice["finish_reason"]
    if not 0 < len(ids) == len(logprobs) <= longest or reason not in ("stop", "length"):
        raise ValueError(f"{len(ids)} tokens, {len(logprobs)} log-probabilities, {reason!r}")
    if not all(type(token) is int and 0 <= token < 2**31 for token in ids):
        raise ValueError("token ids are whole numbers of 31 bits")
    if not all(type(one) in (int, float) and LOWEST <= one <= ROUNDING for one in logprobs):
        raise ValueError("log-probabilities are finite, and not above 0")
    return Sampled(tuple(ids), tuple(map(float, logprobs)), reason == "stop")


def _check_model(name: str, came: Any, model: str) -> None:
    if came["model"] != model:
        raise WrongModel(
            f"{name}: {printable(came['model'])[:200]!r} answered, and {model!r} was asked: is "
            "another server at this address?"
        )
