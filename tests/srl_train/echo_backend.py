"""Sampling backend `echo`: models that always say the same words."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from srl_agents.episode import ModelVersion
from srl_agents.llm.backends.chat_backend import ChatAnswer, Usage
from srl_agents.llm.backends.token_backend import Completion
from srl_train.config.backend import BackendSection
from srl_train.loading import Samplers, learning_models
from srl_train.publisher import WeightPublisher


class EchoModel:
    """Model that is called echo:WORDS, where a player is named."""

    takes_seed = False

    def __init__(self, words):
        self.name, self.words, self.usage = f"echo:{words}", words, Usage()

    def check(self, sampling):
        """Accept any sampling settings."""

    async def answer(self, request):
        """Answer with the words."""
        answer = ChatAnswer(self.words, "stop", True, self.name)
        self.usage.add(answer)
        return answer


open_model = EchoModel


class EchoConfig(BackendSection):
    """Section `backend` of a run whose models in training say the same words."""

    SAMPLERS: ClassVar = f"{__name__}:open_samplers"
    IN_PROCESS: ClassVar = False

    name: Literal["echo"] = "echo"
    """Name of the backend."""
    words: str = "cooperate"
    """Words of every answer."""


SECTION = EchoConfig


@dataclass
class EchoSampler(WeightPublisher):
    """Sampler of one model, and publisher of its weights' version."""

    words: str
    name: str
    chat: object
    positions: int | None
    tokenizer: object
    version: int = 0

    async def complete(self, request):
        """Complete with the words and the end of turn."""
        ids = (*self.chat.answer(self.words), self.chat.end_of_turn)
        model = ModelVersion(self.name, version=self.version)
        return Completion(ids, (0.0,) * len(ids), ended=True, model=model)

    def release(self, conversation):
        """Keep nothing of a conversation."""

    def publish(self, name, version, tensors):
        """Mark answers with the version."""
        self.version = version


def open_samplers(config, start):
    """Load the modules that train, and sample from none of them."""
    own, modules, _ = learning_models(
        config.models, config.models.bases, start.make_env, config.seed
    )
    samplers = {
        name: EchoSampler(config.backend.words, name, one.chat, one.positions, one.tokenizer)
        for name, one in own.items()
    }
    [publisher] = samplers.values()
    return Samplers(modules, samplers, publisher)
