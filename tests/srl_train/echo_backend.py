"""Sampling backend `echo`: models that always answer the same words."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from srl_agents.episode import ModelVersion
from srl_agents.llm.backends.chat_backend import ChatAnswer, Usage
from srl_agents.llm.backends.token_backend import Completion
from srl_train.config.backend import BackendSection
from srl_train.loading import Samplers, learning_models
from srl_train.publisher import WeightPublisher


class EchoModel:
    """Model of a player that is called echo:WORDS."""

    takes_seed = False

    def __init__(self, words):
        self.name, self.words, self.usage = f"echo:{words}", words, Usage()

    def check(self, sampling): ...

    async def answer(self, request):
        answer = ChatAnswer(self.words, "stop", True, self.name)
        self.usage.add(answer)
        return answer


open_model = EchoModel


class EchoConfig(BackendSection):
    """Section `backend` of a run whose models always answer the same words."""

    SAMPLERS: ClassVar = f"{__name__}:open_samplers"
    IN_PROCESS: ClassVar = False

    name: Literal["echo"] = "echo"
    words: str = "cooperate"
    """Words of every answer."""


SECTION = EchoConfig


@dataclass
class EchoSampler:
    """Sampler of one model."""

    words: str
    name: str
    chat: object
    positions: int | None
    tokenizer: object
    version: int = 0

    async def complete(self, request):
        ids = (*self.chat.answer(self.words), self.chat.end_of_turn)
        model = ModelVersion(self.name, version=self.version)
        return Completion(ids, (0.0,) * len(ids), ended=True, model=model)

    def release(self, conversation): ...


@dataclass
class EchoPublisher(WeightPublisher):
    """Publisher of versions to samplers that need no weights."""

    samplers: dict

    def publish(self, name, version, tensors):
        self.samplers[name].version = version


def open_samplers(config, start):
    """Load the modules that train; the samplers do not use them."""
    own, modules, _ = learning_models(
        config.models, config.models.bases, start.make_env, config.seed
    )
    samplers = {
        name: EchoSampler(config.backend.words, name, one.chat, one.positions, one.tokenizer)
        for name, one in own.items()
    }
    return Samplers(modules, samplers, EchoPublisher(samplers))
