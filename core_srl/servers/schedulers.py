"""Scheduler of several models: their vLLM servers, and the requests shared over them."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal

from core_srl.arguments import text, whole
from core_srl.managers.llm_config import ANSWER_TOKENS, LLMConfig, LLMResponse, overridden
from core_srl.models import MODERN_MODELS
from srl_agents.errors import BackendError, PlacementError, ServingError
from srl_agents.llm.backends import background_loop
from srl_agents.llm.backends.chat_backend import ChatRequest
from srl_agents.llm.backends.huggingface.loading import folder_of
from srl_agents.llm.backends.network import RetryPolicy
from srl_agents.llm.backends.openai import OpenAIModel
from srl_agents.llm.sampling import Sampling
from srl_extensions.vllm.client import UNREACHABLE, VLLMClient
from srl_extensions.vllm.command import ServerSpec
from srl_extensions.vllm.fleet import Fleet
from srl_extensions.vllm.placement import find_gpus, place, weights_gib
from srl_extensions.vllm.routing import MAX_WAIT, Task
from srl_extensions.vllm.server import logs_folder
from srl_train.errors import ConfigError

CONCURRENCY = 64
"""Requests under way at one server at most."""
CHARACTERS_PER_TOKEN = 4
"""Of a prompt, to tell its size by before a server has read it: a rule of thumb for English."""
SAMPLING = Sampling(temperature=LLMConfig.temperature, max_new_tokens=ANSWER_TOKENS)


class UnifiedScheduler:
    """Several models behind vLLM servers of this machine, and the requests shared over them.

    Each model brings a server, at the next port from base_port on: on the GPUs where its weights
    fit, or on the CPU where there are none. Models with the same weights share their servers, by
    equal shares of the tokens or by score. `async with` starts and stops all.
    """

    def __init__(
        self,
        base_port: int = 8001,
        num_gpus: int = 8,
        *,
        sharing: Literal["fair", "priority"] = "fair",
        max_length: int | None = None,
        max_wait: float = MAX_WAIT,
        python: str = sys.executable,
    ) -> None:
        """Nothing starts yet. Of this machine's GPUs the first `num_gpus` are used, if it has them.

        `max_length` bounds conversations, in tokens (None: as long as the models take), `max_wait`
        the seconds that a task waits for a server; `python` is the interpreter that vLLM is
        installed for. Raises ConfigError.
        """
        whole("base_port", base_port, 1, 65535)
        whole("num_gpus", num_gpus, 0)
        text("python", python)
        if max_length is not None:
            whole("max_length", max_length, 2)
        if type(max_wait) not in (int, float) or not 0 < max_wait < math.inf:
            raise ConfigError(f"max_wait is {max_wait!r}: give seconds, above 0")
        if sharing not in ("fair", "priority"):
            raise ConfigError(f"sharing is {sharing!r}: give 'fair' or 'priority'")
        self.base_port, self.num_gpus, self.sharing = base_port, num_gpus, sharing
        self._max_length, self._max_wait, self._python = max_length, max_wait, python
        self._models: dict[str, str] = {}  # what the weights are named by
        self._specs: dict[str, ServerSpec] = {}
        self._fleet: Fleet | None = None
        self._clients: dict[VLLMClient, OpenAIModel] = {}
        self._changing = asyncio.Lock()
        """Held while the servers are started or ended."""

    def register_model(self, model_id: str, model_name: str | None = None) -> None:
        """A further model, of a local folder or hub name; None takes MODERN_MODELS[model_id].

        Raises ConfigError for a name that is taken or unknown, and once the servers run.
        """
        if self._fleet is not None:
            raise ConfigError("the servers run already: register models before start()")
        if text("model_id", model_id) in self._models:
            raise ConfigError(f"model_id is {model_id!r}: give a text that no other model has")
        name = MODERN_MODELS.get(model_id) if model_name is None else model_name
        if not isinstance(name, str) or not name:
            raise ConfigError(
                f"{model_id}: model_name is {model_name!r}: give a folder or hub name (of "
                f"themselves known are {', '.join(MODERN_MODELS)})"
            )
        self._models[model_id] = name

    async def start(self) -> None:
        """Place the models, start their servers and wait until they answer.

        Raises PlacementError for what does not fit, ServingError, with all servers ended, where one
        does not come up, BackendError where a model cannot be had, and ConfigError without models.
        """
        if not self._models:
            raise ConfigError("no model is registered: register_model('qwen3')")
        async with self._changing:
            if self._fleet is not None:
                raise ServingError("the servers run already: stop() them first")
            self._fleet = await asyncio.to_thread(self._started)

    async def stop(self) -> None:
        """End the servers, if they run; what is asked then fails. Where they just start, that is
        waited for."""
        async with self._changing:
            fleet, self._fleet = self._fleet, None
            self._clients.clear()
            if fleet is not None:
                await asyncio.to_thread(fleet.close)

    shutdown = stop

    async def __aenter__(self) -> UnifiedScheduler:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def submit_task(
        self, task: str, selected_models: Sequence[str] | None = None, **sampling: Any
    ) -> dict[str, LLMResponse]:
        """What the selected models, or all of them, answer to a prompt; they work at once.

        `sampling` has temperature, top_p and max_new_tokens. Raises ConfigError for models and
        settings that there are not, and BackendError where a model does not answer or has waited
        for max_wait seconds.
        """
        if not text("task", task).strip():
            raise ConfigError(f"task is {task!r}: give a text")
        chosen = list(self._models) if selected_models is None else selected_models
        if (
            not isinstance(chosen, list | tuple)
            or not chosen
            or any(one not in list(self._models) for one in chosen)
            or len(set(chosen)) < len(chosen)
        ):
            raise ConfigError(
                f"selected_models is {chosen!r}: give a list of some of {list(self._models)}, "
                "each once"
            )
        request = ChatRequest(({"role": "user", "content": task},), overridden(SAMPLING, sampling))
        fleet = self._running()
        answers = await asyncio.gather(*(self._answer(fleet, one, request) for one in chosen))
        return dict(zip(chosen, answers, strict=True))

    def set_score(self, model_id: str, score: float) -> None:
        """Competitive: the higher a model's score, the larger its share of the servers that it has
        in common with others. Raises ServingError otherwise, and for a score that is no number."""
        if text("model_id", model_id) not in self._models:
            raise ConfigError(f"model_id is {model_id!r}: give one of {list(self._models)}")
        self._running().routers[self._models[model_id]].set_score(model_id, score)

    async def health_check_all(self) -> dict[str, bool]:
        """Model -> whether a server of its weights completes a token now."""
        fleet = self._running()

        async def answers(base: str) -> bool:
            ready = [one.check_ready(base) for one in fleet.clients(base)]
            failed = await asyncio.gather(*ready, return_exceptions=True)
            return any(not isinstance(one, BaseException) for one in failed)

        bases = list(dict.fromkeys(self._models.values()))
        up = dict(zip(bases, await asyncio.gather(*map(answers, bases)), strict=True))
        return {model_id: up[base] for model_id, base in self._models.items()}

    def get_system_statistics(self) -> dict[str, Any]:
        """Who is where (port, url and GPUs of each model's server), and what was asked so far.

        `models` has the counts of OwnerStats, `servers` those of ServerStats by url
        (docs/agents/scheduling.md); both are there once the servers run.
        """
        routers = self._fleet.routers if self._fleet is not None else {}
        models = {}
        for model_id, base in self._models.items():
            spec = self._specs.get(model_id) if self._fleet is not None else None
            asked = routers[base].owners.get(model_id) if routers else None
            models[model_id] = {
                "model_name": base,
                "port": spec and spec.port,
                "url": spec and spec.url,
                "gpus": spec and spec.gpus,
                **(asdict(asked) if asked is not None else {}),
            }
        servers = {
            url: {"base": base, **asdict(own)}
            for base, router in routers.items()
            for url, own in router.servers.items()
        }
        return {"sharing": self.sharing, "models": models, "servers": servers}

    def _started(self) -> Fleet:
        bases = list(dict.fromkeys(self._models.values()))
        sharers = {
            base: [one for one, its in self._models.items() if its == base] for base in bases
        }
        try:
            folders = {base: folder_of(base) for base in bases}
            sizes = {base: weights_gib(folder) for base, folder in folders.items()}
        except (BackendError, PlacementError) as error:
            raise BackendError(f"Model loading failed: {error}") from error
        # Models of the same weights share their servers, whose ports follow each other.
        owners = [model_id for base in bases for model_id in sharers[base]]
        gpus = find_gpus()[: self.num_gpus]
        placements = place([sizes[self._models[owner]] for owner in owners], gpus)
        self._specs = {
            owner: ServerSpec(
                model=str(folders[self._models[owner]]),
                served_name=self._models[owner],
                port=self.base_port + number,
                log_folder=logs_folder(),
                gpus=placed.gpus,
                max_model_len=self._max_length,
                memory_fraction=placed.memory_fraction,
                python=self._python,
            )
            for number, (owner, placed) in enumerate(zip(owners, placements, strict=True))
        }
        return Fleet.managed(
            [*self._specs.values()],
            concurrency=CONCURRENCY,
            deadline=self._max_wait,
            sharing=self.sharing,
        )

    async def _answer(self, fleet: Fleet, model_id: str, request: ChatRequest) -> LLMResponse:
        base, prompt = self._models[model_id], request.messages[-1]["content"]

        async def call(endpoint: VLLMClient) -> LLMResponse:
            return LLMResponse(**vars(await self._client(endpoint, base).answer(request)))

        task = Task(
            owner=model_id,
            cost=len(prompt) // CHARACTERS_PER_TOKEN + request.sampling.max_new_tokens,
            prefix=prompt,
        )
        return await background_loop.await_(fleet.routers[base].run(task, call))

    def _client(self, endpoint: VLLMClient, base: str) -> OpenAIModel:
        if endpoint not in self._clients:
            self._clients[endpoint] = OpenAIModel(
                base,
                api_key="none",
                base_url=f"{endpoint.url}/v1",
                concurrency=CONCURRENCY,
                retries=RetryPolicy(deadline=self._max_wait, unreachable=UNREACHABLE),
            )
        return self._clients[endpoint]

    def _running(self) -> Fleet:
        if self._fleet is None:
            raise ServingError("the servers do not run: await start()")
        self._fleet.check()
        return self._fleet


def create_unified_scheduler(
    base_port: int = 8001, num_gpus: int = 8, **settings: Any
) -> UnifiedScheduler:
    """A UnifiedScheduler; `settings` are its own, by name."""
    return UnifiedScheduler(base_port, num_gpus, **settings)


def create_cooperative_scheduler(
    base_port: int = 8001, num_gpus: int = 8, **settings: Any
) -> UnifiedScheduler:
    """One whose models have equal shares of the servers that they have in common."""
    return UnifiedScheduler(base_port, num_gpus, sharing="fair", **settings)


def create_competitive_scheduler(
    base_port: int = 8001, num_gpus: int = 8, **settings: Any
) -> UnifiedScheduler:
    """One whose models have shares by score: `set_score`."""
    return UnifiedScheduler(base_port, num_gpus, sharing="priority", **settings)
