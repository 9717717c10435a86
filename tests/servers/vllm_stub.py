"""Stub of vLLM's endpoints: a small model in this process answers through HuggingFaceBackend."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import PeftModel
from safetensors.torch import load_file

from srl_agents.episode import Episode, ModelVersion
from srl_agents.errors import BackendError
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.backends.token_backend import Completion, Request
from srl_agents.llm.sampling import Sampling
from srl_train.learners.upstream_warnings import quiet_upstream
from tests.servers.faulty_http import Body, Faults, HTTPServer, serving

COMPLETIONS = "/v1/completions"


class Refusal(Exception):
    """Error with the HTTP status of the reply."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


class VLLMStub:
    """Server of one base and its adapters, which a restart unloads."""

    def __init__(self, folder: Path, served_name: str, port: int = 0):
        self.folder, self.served_name = folder, served_name
        self.faults, self.keeps_connections, self.text_type = Faults(), True, "text/plain"
        self.struck_paths = {COMPLETIONS}
        self.counts: Counter[str] = Counter()
        """Path -> number of requests; "prompts" -> number of prompts answered."""
        self.bodies: list[Body] = []
        """Bodies of the requests for completions."""
        self.headers: list[dict[str, str]] = []
        """Headers of all requests."""
        self.healthy = True
        """False if the engine is dead: /health returns 503 and completions return 500."""
        self.dies_after: int | None = None
        """Number of calls after which the engine dies; None for no limit."""
        self.adapters: dict[str, Path] = {}
        """Served name -> folder."""
        self._http: HTTPServer | None = None
        self._stack = ExitStack()
        self._port = port
        self._model_lock = threading.Lock()
        self._running = threading.Event()
        self._rng = np.random.default_rng(0)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Listen at the previous port, with the base and no adapters."""
        self._places: dict[str, str] = {}
        self.adapters, self.healthy = {}, True
        self._backend = HuggingFaceBackend.load(self.folder, device="cpu", name=self.served_name)
        self._running.set()
        self._http = self._stack.enter_context(serving(self, self._port))
        self._port = self._http.server_port

    def stop(self) -> None:
        """Close the port and all connections."""
        self._running.set()
        self._stack.close()

    def close_connections(self) -> None:
        """Close all connections, as a server does with idle ones."""
        assert self._http is not None
        self._http.close_connections()

    def struck_by_faults(self, path: str) -> bool:
        return path in self.struck_paths

    def reply(self, path: str, body: Body, headers: dict[str, str]) -> tuple[int, Any]:
        self.counts[path] += 1
        self.headers.append(headers)
        answers = {
            "/health": self._health,
            "/v1/models": self._models,
            COMPLETIONS: self._complete,
            "/v1/load_lora_adapter": self._load,
            "/v1/unload_lora_adapter": self._unload,
            "/pause?mode=wait": self._pause,
            "/resume": self._resume,
            "/reset_prefix_cache": lambda body: {},
            "/collective_rpc": self._call_workers,
        }
        try:
            return 200, answers[path](body)
        except Refusal as refusal:
            return refusal.status, {"error": {"message": str(refusal), "code": refusal.status}}

    def _health(self, body: Body) -> str:
        if not self.healthy:
            raise Refusal(503, "")
        return ""

    def _models(self, body: Body) -> Body:
        names = [self.served_name, *self.adapters]
        return {"object": "list", "data": [{"id": name, "object": "model"} for name in names]}

    def _load(self, body: Body) -> str:
        name, folder = body["lora_name"], Path(body["lora_path"])
        with self._model_lock:
            if name in self.adapters:
                raise Refusal(400, f"The lora adapter '{name}' has already been loaded.")
            if not (folder / "adapter_config.json").is_file():
                raise Refusal(404, f"Loading lora {name} failed: No adapter found for {folder}")
            place = f"adapter{len(self._places)}"  # Names in PEFT contain no dots.
            model = self._backend.model
            with quiet_upstream():
                if self._places:
                    model.load_adapter(folder, place)
                else:
                    model = PeftModel.from_pretrained(model, folder, place)
                    self._backend = HuggingFaceBackend(
                        model.eval(), self._backend.tokenizer, name=self.served_name
                    )
            self._places[name], self.adapters[name] = place, folder
        return f"Success: LoRA adapter '{name}' added successfully."

    def _unload(self, body: Body) -> str:
        name = body["lora_name"]
        if self.adapters.pop(name, None) is None:
            raise Refusal(404, f"The lora adapter '{name}' cannot be found.")
        return f"Success: LoRA adapter '{name}' removed successfully."

    def _pause(self, body: Body) -> Body:
        self._running.clear()
        with self._model_lock:  # No completion is running.
            return {"status": "paused"}

    def _resume(self, body: Body) -> Body:
        self._running.set()
        return {"status": "resumed"}

    def _call_workers(self, body: Body) -> Body:
        if body["method"] != "publish_weights":
            raise Refusal(500, f"no method {body['method']}")
        if self._running.is_set():
            raise Refusal(500, "weights are changed while requests are answered: pause first")
        files = sorted(Path(body["args"][0]).glob("*.safetensors"))
        if not files:
            raise Refusal(500, f"no *.safetensors in {body['args'][0]}")
        model = self._backend.model
        base = model.get_base_model() if self._places else model
        held = {name.replace(".base_layer", ""): p for name, p in base.named_parameters()}
        with torch.no_grad(), self._model_lock:
            for name, value in (item for file in files for item in load_file(file).items()):
                held[name].copy_(value)
        return {"results": [{"tensors": len(held), "repacked": 0}]}

    def _complete(self, body: Body) -> Body:
        # vLLM reads an evicted adapter again; its engine ends if the folder is missing.
        self.healthy &= all(folder.is_dir() for folder in self.adapters.values())
        if self.dies_after is not None and len(self.bodies) >= self.dies_after:
            self.healthy = False
        if not self.healthy:
            raise Refusal(500, "EngineCore encountered an issue")
        self.bodies.append(body)
        self._running.wait()
        name, prompts = body["model"], body["prompt"]
        if name != self.served_name and name not in self.adapters:
            raise Refusal(404, f"The model `{name}` does not exist.")
        adapter = self._places.get(name, "__base__" if self._places else None)
        if isinstance(prompts[0], int):
            prompts = [prompts]
        longest = max(map(len, prompts)) + body["max_tokens"]
        if longest > (limit := self._backend.positions):
            raise Refusal(400, f"maximum context length is {limit}, and {longest} were requested")
        with self._model_lock:
            try:
                requests = [self._request(body, prompt, adapter) for prompt in prompts]
                completions = self._backend.sample(requests)
                prompt_logprobs = [
                    self._prompt_logprobs(body, prompt, adapter) for prompt in prompts
                ]
            except BackendError as error:
                raise Refusal(400, str(error)) from error
        self.counts["prompts"] += len(prompts)
        if "vllm_xargs" in body:
            whole = json.loads(body["vllm_xargs"]["answers"])
            completions = [_as_listed(one, whole) for one in completions]
        rows = zip(completions, prompt_logprobs, strict=True)
        choices = [_choice(index, *row) for index, row in enumerate(rows)]
        return {"id": "1", "object": "text_completion", "model": name, "choices": choices}

    def _request(self, body: Body, prompt: list[int], adapter: str | None) -> Request:
        chat = self._backend.chat
        answers = None
        if "vllm_xargs" in body:
            whole = json.loads(body["vllm_xargs"]["answers"])
            answers = tuple(tuple(answer[: _written(answer, chat)]) for answer in whole)
        elif set(body.get("stop_token_ids", chat.stop_ids)) != chat.stop_ids:
            raise Refusal(400, f"this model stops at {sorted(chat.stop_ids)}")
        seed = body.get("seed")
        return Request(
            context=tuple(prompt),
            sampling=Sampling(
                temperature=body.get("temperature", 1.0),
                top_p=body.get("top_p", 1.0),
                top_k=body.get("top_k", 0),
                max_new_tokens=body["max_tokens"],
            ),
            seed=int(self._rng.integers(2**31)) if seed is None else seed,
            answers=answers,
            adapter=adapter,
        )

    def _prompt_logprobs(self, body: Body, prompt: list[int], adapter: str | None) -> Any:
        if "prompt_logprobs" not in body:
            return None
        extra = {} if adapter is None else {"adapter_names": [adapter]}
        with torch.inference_mode():
            logits = self._backend.model(torch.tensor([prompt]), **extra).logits[0, :-1]
        values = logits.log_softmax(-1)[torch.arange(len(prompt) - 1), prompt[1:]].tolist()
        pairs = zip(prompt[1:], values, strict=True)
        return [None, *({str(token): {"logprob": value}} for token, value in pairs)]


def _written(answer: list[int], chat: Any) -> int:
    """Return the number of tokens of an answer before its end of turn, if there is one."""
    return len(answer) - (answer[-1] == chat.end_of_turn)


def _as_listed(completion: Completion, whole: list[list[int]]) -> Completion:
    """Return the completion without the end of turn, if the listed answers have none."""
    if list(completion.ids) in whole:
        return completion
    return replace(
        completion, ids=completion.ids[:-1], logprobs=completion.logprobs[:-1], ended=False
    )


def _choice(index: int, completion: Completion, prompt_logprobs: Any) -> Body:
    return {
        "index": index,
        "text": "",
        "token_ids": list(completion.ids),
        "logprobs": {"token_logprobs": list(completion.logprobs)},
        "finish_reason": "stop" if completion.ended else "length",
        "prompt_logprobs": prompt_logprobs,
    }


def choice_of_another_vocabulary(token: int) -> Any:
    """Return a replacement of `_choice` that answers the first prompt of a call with `token`."""
    original = _choice

    def choice(index: int, completion: Completion, prompt_logprobs: Any) -> Body:
        if index == 0:
            completion = replace(completion, ids=(token,) * len(completion.ids))
        return original(index, completion, prompt_logprobs)

    return choice


@contextmanager
def stub_server(model_folder: Path, *, served_name: str = "base") -> Iterator[VLLMStub]:
    """Run a server of the model in `model_folder`."""
    stub = VLLMStub(model_folder, served_name)
    stub.start()
    try:
        yield stub
    finally:
        stub.stop()


def sampled_versions(episodes: Iterable[Episode]) -> dict[str, set[ModelVersion]]:
    """Return agent -> versions that its steps were sampled from, in episodes without failures."""
    found: dict[str, set[ModelVersion]] = {}
    for episode in episodes:
        assert episode.failure is None
        for step in (step for turn in episode.turns for step in turn):
            if step.decision.tokens is not None:
                found.setdefault(step.agent, set()).add(step.decision.tokens.model)
    return found
