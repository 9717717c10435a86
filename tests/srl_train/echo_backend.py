"""Sampling backend `echo`: models that always answer the same words.

A complete example of a backend, for authors of extensions. The module defines `open_model`, for
models without training, and `SECTION`, for models in training.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from srl_agents.episode import ModelVersion
from srl_agents.llm.backends.chat_backend import ChatAnswer, Usage
from srl_agents.llm.backends.token_backend import Completion
from srl_train.config.backend import BackendSection
from srl_train.loading import Samplers, learning_models
from srl_train.publisher import WeightPublisher


class EchoModel:
    """Model behind an API (srl_agents.llm.backends.chat_backend.ChatModel).

    Args:
        words: Words of every answer. A player is named echo:WORDS.
    """

    takes_seed = False
    """Requests contain no seed."""

    def __init__(self, words):
        self.name, self.words, self.usage = f"echo:{words}", words, Usage()

    def check(self, sampling):
        """Accept all sampling settings of an agent; a model with limits raises PolicyError."""

    async def answer(self, request):
        """Answer a conversation.

        Args:
            request: ChatRequest with messages and sampling settings.

        Returns:
            A ChatAnswer. A model that fails raises BackendError instead.
        """
        answer = ChatAnswer(self.words, "stop", True, self.name)
        self.usage.add(answer)
        return answer


open_model = EchoModel
"""Constructor of the model of a player echo:WORDS, called with WORDS."""


class EchoConfig(BackendSection):
    """Section `backend` of a run whose models always answer the same words."""

    SAMPLERS: ClassVar = f"{__name__}:open_samplers"
    IN_PROCESS: ClassVar = False

    name: Literal["echo"] = "echo"
    words: str = "cooperate"
    """Words of every answer."""


SECTION = EchoConfig
"""Configuration section of this backend."""


@dataclass
class EchoSampler:
    """Sampler of one model in training (srl_agents.llm.backends.token_backend.Backend)."""

    words: str
    name: str
    chat: object
    positions: int | None
    tokenizer: object
    version: int = 0

    async def complete(self, request):
        """Sample a completion of a request, which has a context, sampling settings and a seed.

        Returns:
            Completion with token ids and their log-probabilities, 0 for a certain answer.
        """
        ids = (*self.chat.answer(self.words), self.chat.end_of_turn)
        model = ModelVersion(self.name, version=self.version)
        return Completion(ids, (0.0,) * len(ids), ended=True, model=model)

    def release(self, conversation):
        """Do nothing at the end of a conversation, given by its id: there are no caches."""


@dataclass
class EchoPublisher(WeightPublisher):
    """Publisher of new versions to samplers that need no weights."""

    samplers: dict

    def publish(self, name, version, tensors):
        """Set the version of the model's sampler, its number of updates; ignore new weights."""
        self.samplers[name].version = version


def open_samplers(config, start):
    """Load the models of a run and create their samplers.

    Args:
        config: RunConfig.
        start: Start of the run, with `make_env`.

    Returns:
        Samplers: the modules that are trained, the sampler of each model, and the publisher of new
        weights.
    """
    own, modules, _ = learning_models(
        config.models, config.models.bases, start.make_env, config.seed
    )
    samplers = {
        name: EchoSampler(config.backend.words, name, one.chat, one.positions, one.tokenizer)
        for name, one in own.items()
    }
    return Samplers(modules, samplers, EchoPublisher(samplers))
