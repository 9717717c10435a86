"""Shared weights of a manager: conversations by token, and updates for all of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from peft import PeftModel
from torch import Tensor

from core_srl.errors import as_documented, loading
from core_srl.llm_config import LLMConfig, LLMResponse
from srl_agents.episode import Tokens
from srl_agents.errors import BackendError
from srl_agents.event_loop import run
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.backends.token_backend import Request
from srl_agents.llm.chat_format import ChatTurn
from srl_agents.llm.sampling import Sampling
from srl_envs import registry
from srl_train.config.models import AdapterConfig
from srl_train.errors import ConfigError, UpdateError
from srl_train.learners.lora import adapter_models
from srl_train.loading import InProcessPublisher, load_backend
from srl_train.player_names import Loading


@dataclass(frozen=True)
class TokenConversation:
    """State of a node's conversation, which a new answer replaces."""

    rules: str
    """System prompt."""
    seed: int
    """Seed of the answers."""
    number: int
    """Id of the conversation, under which the backend keeps its cache."""
    context: tuple[int, ...] = ()
    """Token ids of all prompts and answers so far."""
    draws: int = 0
    """Number of random draws so far (Request.draws_before)."""


class SharedWeights:
    """One model of this process for many conversations, updated for all of them.

    Threads may sample and update at the same time: a batch has one version of the weights. If
    `enable_lora` is set, a new LoRA adapter is added. Only adapters are updated if there are any.
    Raises BackendError if the model cannot be loaded, ConfigError for `enable_lora` on an adapter.
    """

    def __init__(self, config: LLMConfig) -> None:
        self.backend = load_model(config.model_name, config.device)
        model = self.backend.model
        if config.enable_lora:
            if isinstance(model, PeftModel):
                raise ConfigError(
                    f"enable_lora must be False, got True: {config.model_name} is an adapter"
                )
            [model] = adapter_models(model, ["shared"], AdapterConfig(), seed=0).values()
            self.backend = self.backend.with_model(model.eval())
        adapted = isinstance(model, PeftModel)
        self._weights = {
            name: own for name, own in model.named_parameters() if "lora_" in name or not adapted
        }
        for own in self._weights.values():  # Loading froze them.
            own.requires_grad_(True)
        self._optimizer = torch.optim.AdamW(self._weights.values(), weight_decay=0.0)
        self._longest = min(config.max_length, self.backend.positions or config.max_length)
        self.version = 0
        self._numbers = itertools.count()
        self._publisher = InProcessPublisher({"shared": self.backend}, {}, frozenset())

    def start(self, sampling: Sampling, rules: str, seed: int) -> TokenConversation:
        """Return an empty conversation with the system prompt `rules`; `sampling` is not used."""
        return TokenConversation(rules, seed, next(self._numbers))

    def answer(
        self, state: TokenConversation, prompt: str, sampling: Sampling
    ) -> tuple[LLMResponse, TokenConversation]:
        """Sample the answer to a prompt; return it, and the conversation that includes both.

        The answer is cut where the conversation has max_length tokens or reaches the model's
        limit. Raises BackendError if no token is left.
        """
        chat = self.backend.chat
        rules = None if state.context else state.rules
        last = state.context[-1] if state.context else None
        [read] = chat.prompts([ChatTurn(prompt, rules=rules, last=last)])
        context = state.context + read
        free = self._longest - len(context)
        if free < 1:
            raise BackendError(
                f"the conversation has {len(context)} tokens, and max_length or the model allow "
                f"{self._longest}: register the node again, which restarts it"
            )
        request = Request(
            context,
            replace(sampling, max_new_tokens=min(sampling.max_new_tokens, free)),
            state.seed,
            state.draws,
            conversation=state.number,
        )

        async def complete() -> Any:
            return await self.backend.complete(request)  # requires a running event loop

        completion = run(complete())
        response = LLMResponse(
            text=chat.text(completion.ids),
            model=str(completion.model),
            prompt_tokens=len(context),
            completion_tokens=len(completion.ids),
            finish_reason="stop" if completion.ended else "length",
            ended=completion.ended,
            tokens=Tokens(read, completion.ids, completion.logprobs, completion.model),
        )
        draws = state.draws + request.longest
        return response, replace(state, context=context + completion.ids, draws=draws)

    def end(self, state: TokenConversation) -> None:
        """Release the key-value cache of a conversation."""
        self.backend.release(state.number)

    def update(self, gradients: Mapping[str, Any], learning_rate: float) -> dict[str, Any]:
        """Make one AdamW step with gradients by name, of some or all updated weights.

        Returns {"version": new number, "parameters": number of gradients, "gradient_norm": L2
        norm, not clipped}. Raises UpdateError, without a change, for wrong gradients or rates.
        """
        if not 0 < learning_rate < math.inf:
            raise UpdateError(f"learning_rate must be above 0 and finite, got {learning_rate!r}")
        with self.backend.lock, as_documented():
            steps = self._checked(gradients)
            norm = float(torch.stack([own.float().norm() for _, own in steps]).norm())
            self._optimizer.zero_grad()  # The optimizer skips weights without a gradient.
            for weight, gradient in steps:
                weight.grad = gradient
            for group in self._optimizer.param_groups:
                group["lr"] = learning_rate
            self._optimizer.step()
            self._optimizer.zero_grad()
            self.version += 1
            self._publisher.publish("shared", self.version, self._weights)
        return {"version": self.version, "parameters": len(steps), "gradient_norm": norm}

    def _checked(self, gradients: Mapping[str, Any]) -> list[tuple[Tensor, Tensor]]:
        unknown = [name for name in gradients if name not in self._weights]
        if unknown or not gradients:
            raise UpdateError(
                f"gradients must have names of weights that {self.backend.name} shares, such as "
                f"{next(iter(self._weights))!r}, got {unknown}"
            )
        try:
            return [
                (self._weights[name], dense_like(given, self._weights[name]))
                for name, given in gradients.items()
            ]
        except ValueError as error:
            raise UpdateError(f"a gradient {error}") from error


def dense_like(given: Any, like: Tensor) -> Tensor:
    """Return `given`, a tensor or numbers, as a tensor with the dtype and device of `like`.

    Raises ValueError for other objects, numbers that are not finite, and another shape.
    """
    try:
        numbers = torch.as_tensor(given)
    except (RuntimeError, TypeError) as error:  # None, as the gradient of an unused weight
        raise ValueError(f"must be numbers or a tensor, got {given!r:.80}") from error
    tensor = numbers.to(like)
    if tensor.shape != like.shape or not tensor.isfinite().all():
        shapes = f"{tuple(like.shape)}, got {tuple(tensor.shape)}"
        raise ValueError(f"must be finite and have shape {shapes}")
    return tensor


def load_model(model_name: str, device: str) -> HuggingFaceBackend:
    """Load a model or PEFT adapter by folder or hub name, or 'tiny' for coop_compete_pair_v0.

    `device` is "auto" or a torch device. Raises BackendError: "Model loading failed", "GPU memory
    insufficient".
    """

    def make_env() -> Any:
        return registry.make("coop_compete_pair_v0", max_cycles=8)

    with loading(ConfigError):
        return load_backend(model_name, make_env, Loading(device=device))
