"""Shared weights of a manager: conversations by token, and updates for all of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from peft import PeftModel
from torch import Tensor

from core_srl.errors import as_documented, loading
from core_srl.llm_config import (
    LLMConfig,
    LLMResponse,
    NodeSettings,
    UpdateStrategy,
    sampling_within,
)
from srl_agents.episode import Tokens
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

HIGHEST_RATE = 1e3
"""Limit of a learning rate, with which a finite gradient leaves weights finite."""


@dataclass(frozen=True)
class TokenConversation:
    """Tokens of a node's conversation."""

    settings: NodeSettings
    number: int
    context: tuple[int, ...] = ()
    draws: int = 0
    """Position in the seed's stream (Request.draws_before)."""


class SharedWeights:
    """One model of this process for many conversations, updated for all of them.

    Threads may sample and update at the same time: a batch has one version of the weights.
    """

    def __init__(self, config: LLMConfig) -> None:
        """Load the model. Raises BackendError, and ConfigError for an adapter on an adapter."""
        self._strategy = config.update_strategy
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
        self._weights = [
            own for name, own in model.named_parameters() if "lora_" in name or not adapted
        ]
        for own in self._weights:  # Loading froze them.
            own.requires_grad_(True)
        makers: dict[UpdateStrategy, Callable[[list[Tensor]], torch.optim.Optimizer]] = {
            UpdateStrategy.ADAPTIVE: lambda weights: torch.optim.AdamW(weights, weight_decay=0.0),
            UpdateStrategy.INCREMENTAL: torch.optim.SGD,
        }
        maker = makers.get(self._strategy)
        self._optimizer = maker and maker(self._weights)
        self._longest = min(config.max_length, self.backend.positions or config.max_length)
        self.version = 0
        self._numbers = itertools.count()
        self._publisher = InProcessPublisher({"shared": self.backend}, {}, frozenset())

    def start(self, settings: NodeSettings) -> TokenConversation:
        """Start a conversation."""
        return TokenConversation(settings, next(self._numbers))

    def answer(
        self, state: TokenConversation, prompt: str, sampling: Sampling
    ) -> tuple[LLMResponse, TokenConversation]:
        """Return the model's answer and the conversation with it. Raises BackendError."""
        chat, settings = self.backend.chat, state.settings
        rules = None if state.context else settings.system_prompt.strip()
        last = state.context[-1] if state.context else None
        [read] = chat.prompts([ChatTurn(prompt, rules=rules, last=last)])
        context = state.context + read
        request = Request(
            context,
            sampling_within(sampling, len(context), self._longest),
            settings.seed,
            state.draws,
            conversation=state.number,
        )

        async def complete() -> Any:
            return await self.backend.complete(request)

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
        """Release the cache of a conversation."""
        self.backend.release(state.number)

    def update(self, gradients: Mapping[str, Any], learning_rate: float) -> dict[str, Any]:
        """Apply gradients once; clears the parameters' `.grad`. Raises UpdateError."""
        if self._optimizer is None:
            raise UpdateError(f"update_strategy is {self._strategy}: the weights do not change")
        if type(learning_rate) not in (int, float) or not 0 < learning_rate <= HIGHEST_RATE:
            raise UpdateError(
                f"learning_rate must be above 0 and at most {HIGHEST_RATE:g}, got {learning_rate!r}"
            )
        with self.backend.lock, as_documented():
            steps = self._checked(gradients)
            norm = float(torch.stack([own.float().norm() for _, own in steps]).norm())
            for own in self._weights:
                own.grad = None  # The optimizer skips weights without a gradient.
            for weight, gradient in steps:
                weight.grad = gradient
            for group in self._optimizer.param_groups:
                group["lr"] = learning_rate
            self._optimizer.step()
            self._optimizer.zero_grad()
            self.version += 1
            self._publisher.publish("shared", self.version, self._trainable())
        return {"version": self.version, "parameters": len(steps), "gradient_norm": norm}

    def _trainable(self) -> dict[str, Tensor]:
        return {n: p for n, p in self.backend.model.named_parameters() if p.requires_grad}

    def _checked(self, gradients: Mapping[str, Any]) -> list[tuple[Tensor, Tensor]]:
        """Return pairs of parameter and gradient."""
        if not isinstance(gradients, Mapping) or not gradients:
            raise UpdateError("gradients must be a mapping of parameter names to tensors")
        weights, steps = self._trainable(), []
        for name, given in gradients.items():
            if name not in weights:
                raise UpdateError(
                    f"gradients: {self.backend.name} shares no weight {name!r}; it has "
                    f"{len(weights)}, such as {next(iter(weights))!r}"
                )
            try:
                steps.append((weights[name], dense_like(given, weights[name])))
            except ValueError as error:
                raise UpdateError(f"the gradient of {name} {error}") from error
        return steps


def dense_like(given: Any, like: Tensor) -> Tensor:
    """Return `given` as a tensor with the dtype, device and shape of `like`.

    Raises ValueError for other shapes and numbers that are not finite.
    """
    try:
        tensor = torch.as_tensor(given).to(dtype=like.dtype, device=like.device)
    except (TypeError, RuntimeError) as error:
        raise ValueError(f"is no tensor ({error})") from error
    if tensor.shape != like.shape:
        raise ValueError(f"must have shape {tuple(like.shape)}, got {tuple(tensor.shape)}")
    if not tensor.isfinite().all():
        raise ValueError("is not finite")
    return tensor


def load_model(model_name: str, device: str) -> HuggingFaceBackend:
    """Load a local folder, hub name, PEFT adapter, or 'tiny' for coop_compete_pair_v0.

    Raises BackendError: "Model loading failed", "GPU memory insufficient".
    """

    def make_env() -> Any:
        return registry.make("coop_compete_pair_v0", max_cycles=8)

    with loading(ConfigError):
        return load_backend(model_name, make_env, Loading(device=device))
