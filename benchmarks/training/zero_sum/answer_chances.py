"""Chances of a model's legal answers, exactly: its probabilities of their tokens, not samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend, evaluating
from srl_agents.llm.backends.token_backend import Completion, Request, known_trie
from srl_agents.llm.chat_format import ChatFormat
from srl_agents.llm.text_policy import TextPolicy
from srl_agents.policy import AgentObservation
from srl_agents.rollout.event_loop import run
from srl_envs.text.view import TextView


class ToldBackend:
    """A model whose answers are told in advance, and whose chances of them are kept."""

    def __init__(self, backend: HuggingFaceBackend) -> None:
        self._backend = backend
        self.name = backend.name
        self.told = 0
        """The number of the answer that is given next."""
        self.chances: list[float] = []
        """Of the legal answers asked for last, in order."""

    @property
    def chat(self) -> ChatFormat:
        """The model's own."""
        return self._backend.chat

    async def complete(self, request: Request) -> Completion:
        """The answer told, after the chances of all have been read off."""
        assert request.answers is not None
        self.chances = answer_chances(self._backend, request)
        ids = (*request.answers[self.told], self.chat.end_of_turn)
        return Completion(ids, (0.0,) * len(ids), True, self._backend.identity(request.adapter))

    def release(self, conversation: int) -> None:
        """Nothing is kept."""


def answer_chances(backend: HuggingFaceBackend, request: Request) -> list[float]:
    """The chance of each of the request's legal answers, as constrained sampling draws them."""
    assert request.answers is not None
    temperature = request.sampling.temperature
    found = []
    with backend.lock, torch.inference_mode(), evaluating(backend.model):
        for answer in request.answers:
            tree, chance = known_trie(request.answers, backend.chat.end_of_turn), 1.0
            written: tuple[int, ...] = ()
            for token in (*answer, backend.chat.end_of_turn):
                if len(tree.allowed) > 1:
                    ids = torch.tensor([[*request.context, *written]])
                    logits = backend.model(ids.to(backend.model.device)).logits[0, -1]
                    own = logits[list(tree.allowed)].double() / temperature
                    chance *= float(own.softmax(-1)[tree.allowed.index(token)])
                tree, written = tree.children[token], (*written, token)
            found.append(chance)
    return found


def chances_along(
    backend: HuggingFaceBackend,
    view: TextView,
    agent: str,
    course: Sequence[tuple[Any, int]],
) -> list[float]:
    """The chances of the legal answers at the last of an agent's turns, of which `course` holds
    what it observed and, but for the last, the answer it gave."""
    told = ToldBackend(backend)
    policy = TextPolicy(told, view, constrained=True)
    states = [policy.start(0)]
    for observed, answer in course:
        told.told = answer
        seen = AgentObservation(agent, np.asarray(observed, np.float32))
        _, states = run(policy.act([seen], states))
    return told.chances
