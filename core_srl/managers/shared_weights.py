"""Weights that a manager's nodes share: their conversations by token, and joint updates."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from peft import PeftModel
from torch import Tensor

from core_srl.errors import as_documented
from core_srl.managers.llm_config import LLMConfig, LLMResponse, NodeSettings, UpdateStrategy
from srl_agents.episode import Tokens
from srl_agents.errors import BackendError
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.backends.token_backend import Request
from srl_agents.llm.chat_format import Turn
from srl_agents.llm.sampling import Sampling
from srl_agents.rollout.event_loop import run
from srl_envs import registry
from srl_train.checkpoints.adapter_folders import attach
from srl_train.config.models import AdapterConfig
from srl_train.errors import ConfigError, UpdateError
from srl_train.learners.lora import adapter_models, share
from srl_train.loading import InProcessPublisher, load_backend
from srl_train.player_names import Loading

HIGHEST_RATE = 1e3
"""Of a learning rate: a finite gradient then still leaves weights finite."""
_SEED = 0  # of the first values of an adapter that enable_lora puts on
_OPTIMIZERS: Mapping[UpdateStrategy, Callable[[list[Tensor]], torch.optim.Optimizer]] = {
    UpdateStrategy.ADAPTIVE: lambda weights: torch.optim.AdamW(weights, weight_decay=0.0),
    UpdateStrategy.INCREMENTAL: torch.optim.SGD,
}


@dataclass(frozen=True)
class TokenConversation:
    """What a node has read and written."""

    backend: HuggingFaceBackend
    settings: NodeSettings
    number: int
    context: tuple[int, ...] = ()
    """Every token so far: prompts as appended, answers as sampled."""
    draws: int = 0
    """What its answers had of the seed's stream so far (Request.draws_before)."""


class SharedWeights:
    """One model of this process that holds many conversations and is updated for all of them.

    Whoever asks for answers and whoever updates may be different threads: a batch is sampled from
    one version of the weights.
    """

    def __init__(self, config: LLMConfig) -> None:
        """Raises BackendError, "Model loading failed" or "GPU memory insufficient", and
        ConfigError for an adapter upon an adapter."""
        self._strategy, self._device = config.update_strategy, config.device
        self.backend = opened(config.model_name, config.device)
        """What samples. `backend.model` is the module, to compute gradients with."""
        model = self.backend.model
        if config.enable_lora:
            if isinstance(model, PeftModel):
                raise ConfigError(
                    f"enable_lora is True, and {config.model_name} is an adapter already: leave "
                    "enable_lora out"
                )
            [model] = adapter_models(model, ["shared"], AdapterConfig(), _SEED).values()
            self.backend = self.backend.with_model(model.eval())
        adapted = isinstance(model, PeftModel)
        self._weights = [
            own for name, own in model.named_parameters() if "lora_" in name or not adapted
        ]
        self._require_gradients()
        make = _OPTIMIZERS.get(self._strategy)
        self._optimizer = make and make(self._weights)
        self._longest = min(config.max_length, self.backend.positions or config.max_length)
        self.version = 0
        """How often the weights were updated."""
        self._numbers = itertools.count()
        self._beside: HuggingFaceBackend | None = None
        self._adapters: dict[str, str] = {}
        self._publisher = InProcessPublisher({"shared": self.backend}, {}, frozenset())

    @property
    def name(self) -> str:
        """The model's name."""
        return self.backend.name

    def start(self, settings: NodeSettings) -> TokenConversation:
        """A conversation that has not begun; its adapter is loaded.

        Raises BackendError for an adapter that cannot be loaded or does not fit.
        """
        backend = self.backend
        if settings.adapter is not None:
            backend, name = self._with_adapter(settings.adapter)
            settings = replace(settings, adapter=name)
        return TokenConversation(backend, settings, next(self._numbers))

    def answer(
        self, state: TokenConversation, prompt: str, sampling: Sampling
    ) -> tuple[LLMResponse, TokenConversation]:
        """What the model says next, and the conversation with it.

        Raises BackendError where it fails, and for a conversation that has reached max_length or
        the model's positions.
        """
        chat, settings = state.backend.chat, state.settings
        turn = Turn(
            prompt,
            rules=None if state.context else settings.system_prompt.strip(),
            last=state.context[-1] if state.context else None,
        )
        [read] = chat.prompts([turn])
        context = state.context + read
        room = self._longest - len(context)
        if room < 1:
            raise BackendError(
                f"the conversation has {len(context)} tokens with this prompt, and {self._longest} "
                "are all that max_length and the model allow: register the node again, which "
                "begins anew"
            )
        request = Request(
            context,
            replace(sampling, max_new_tokens=min(sampling.max_new_tokens, room)),
            settings.seed,
            state.draws,
            adapter=settings.adapter,
            conversation=state.number,
        )

        async def asked() -> Any:
            return await state.backend.complete(request)

        with as_documented():
            completion = run(asked())
        response = LLMResponse(
            text=chat.text(completion.ids),
            model=str(completion.model),
            prompt_tokens=len(context),
            completion_tokens=len(completion.ids),
            finish_reason="stop" if completion.ended else "length",
            ended=completion.ended,
            tokens=Tokens(read, completion.ids, completion.logprobs, completion.model),
        )
        return response, replace(
            state, context=context + completion.ids, draws=state.draws + request.longest
        )

    def leave(self, state: TokenConversation) -> None:
        """The conversation is over: what was kept of it goes."""
        state.backend.release(state.number)

    def update(self, gradients: Mapping[str, Any], learning_rate: float) -> dict[str, Any]:
        """One step of the update strategy, of all the weights that have a gradient.

        `gradients` has tensors by the names of `backend.model.named_parameters()`. The parameters'
        own `.grad` stay as they are. Raises UpdateError, and changes nothing, for what does not
        fit, is not finite or is frozen.
        """
        if self._optimizer is None:
            raise UpdateError(f"update_strategy is {self._strategy}: the weights stay as they are")
        if type(learning_rate) not in (int, float) or not 0 < learning_rate <= HIGHEST_RATE:
            raise UpdateError(
                f"learning_rate is {learning_rate!r}: give a number above 0, and at most "
                f"{HIGHEST_RATE:g}"
            )
        with self.backend.lock, as_documented():
            steps = self._checked(gradients)
            norm = float(torch.stack([own.float().norm() for _, own in steps]).norm())
            self._step(steps, learning_rate)
            weights = {n: p for n, p in self.backend.model.named_parameters() if p.requires_grad}
            self.version += 1
            self._publisher.publish("shared", self.version, weights)
            if self._beside is not None:
                self._beside.weights_version = self.version
        return {"version": self.version, "parameters": len(steps), "gradient_norm": norm}

    def _checked(self, gradients: Mapping[str, Any]) -> list[tuple[Tensor, Tensor]]:
        """(parameter, gradient) of each that is given."""
        if not isinstance(gradients, Mapping) or not gradients:
            raise UpdateError("gradients: give a mapping of parameters' names to tensors")
        there = {n: p for n, p in self.backend.model.named_parameters() if p.requires_grad}
        steps = []
        for name, given in gradients.items():
            if name not in there:
                raise UpdateError(
                    f"gradients have {name!r}, which is no weight that {self.name} shares: it has "
                    f"{len(there)}, such as {next(iter(there))!r}"
                )
            weight = there[name]
            try:
                steps.append((weight, dense_like(given, weight)))
            except ValueError as error:
                raise UpdateError(
                    f"the gradient of {name} is none: {error}; leave this update out"
                ) from error
        return steps

    def _step(self, steps: list[tuple[Tensor, Tensor]], learning_rate: float) -> None:
        assert self._optimizer is not None
        standing = [own.grad for own in self._weights]
        for own in self._weights:
            own.grad = None  # a weight without a gradient is not moved
        try:
            for weight, gradient in steps:
                weight.grad = gradient
            for group in self._optimizer.param_groups:
                group["lr"] = learning_rate
            self._optimizer.step()
        finally:
            for own, gradient in zip(self._weights, standing, strict=True):
                own.grad = gradient

    def _with_adapter(self, source: str) -> tuple[HuggingFaceBackend, str]:
        """What samples with adapters beside the shared weights, and the name of this one there."""
        with self.backend.lock:
            if source not in self._adapters:
                # A tree of its own over the same tensors: the shared one is not rebuilt.
                tree = share(self.backend.model) if self._beside is None else self._beside.model
                name = f"adapter_{len(self._adapters)}"
                model = attach(tree, source, name).eval()
                self._require_gradients()
                self._beside = self._beside or self.backend.with_model(model)
                self._adapters[source] = name
            assert self._beside is not None
            return self._beside, self._adapters[source]

    def _require_gradients(self) -> None:
        for own in self._weights:  # PEFT freezes what it puts an adapter on
            own.requires_grad_(True)


def dense_like(given: Any, like: Tensor) -> Tensor:
    """`given` as a tensor of the data type, on the device and of the shape of `like`.

    Raises ValueError for what is no dense tensor of finite real numbers of that shape.
    """
    try:
        tensor = torch.as_tensor(given)
        if tensor.is_complex() or tensor.is_meta or tensor.layout is not torch.strided:
            raise ValueError("it is complex, sparse or without data")
        tensor = tensor.to(dtype=like.dtype, device=like.device)
    except (TypeError, RuntimeError) as error:
        raise ValueError(f"it is no tensor ({error})") from error
    if tensor.shape != like.shape:
        raise ValueError(f"it has shape {tuple(tensor.shape)}, and {tuple(like.shape)} is wanted")
    if not tensor.isfinite().all():
        raise ValueError("it is not finite")
    return tensor


def opened(model_name: str, device: str) -> HuggingFaceBackend:
    """The model of a local folder or hub name, or of a PEFT adapter upon its base; or 'tiny', which
    knows the words of coop_compete_pair_v0.

    Raises BackendError, "Model loading failed" or "GPU memory insufficient".
    """
    with as_documented():
        try:
            return load_backend(model_name, _usual_game, Loading(device=device))
        except (BackendError, ConfigError) as error:
            raise BackendError(f"Model loading failed: {error}") from error


def _usual_game() -> Any:
    """Whose words 'tiny' knows where no game is named."""
    return registry.make("coop_compete_pair_v0", max_cycles=8)
