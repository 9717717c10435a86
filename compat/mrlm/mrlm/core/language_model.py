"""Language model as an environment: a conversation, with weights that may be trained."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from mrlm.core.environment import EnvironmentMode
from mrlm.core.types import GenerationConfig, Message, MessageRole, Observation, Reward
from srl_agents.llm.backends.token_backend import Request
from srl_agents.llm.chat_format import ChatTurn

if TYPE_CHECKING:
    from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend


class LLMEnvironment:
    """Conversation with a language model, observed as a whole after each message and answer.

    Args:
        model: PreTrainedModel. Trainers train this object in SERVER mode.
        tokenizer: Tokenizer of the model, with a chat template.
        mode: SERVER for a trainer, CLIENT to freeze the weights.
        generation_config: Sampling settings, also in training; None selects the defaults.
        system_prompt: First message of these conversations, not in training; None omits it.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        mode: EnvironmentMode | str = EnvironmentMode.CLIENT,
        generation_config: GenerationConfig | None = None,
        system_prompt: str | None = None,
    ) -> None:
        # The import takes seconds, because the backend needs torch.
        from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend

        self.model, self.tokenizer = model, tokenizer
        self.generation_config = generation_config or GenerationConfig()
        self.system_prompt = system_prompt
        self._backend: HuggingFaceBackend = HuggingFaceBackend(self.model, tokenizer)
        self._seeds = itertools.count()
        self.set_mode(mode)
        self.reset()

    def set_mode(self, mode: EnvironmentMode | str) -> None:
        """Make weights trainable ("server") or freeze them ("client"); else raise ValueError."""
        self.mode = EnvironmentMode(mode)
        self.model.requires_grad_(self.mode is EnvironmentMode.SERVER)

    def reset(self) -> Observation:
        """Start a new conversation; return an observation of the system prompt, if any."""
        prompts = [] if self.system_prompt is None else [self.system_prompt]
        self.conversation = [Message(MessageRole.SYSTEM, text) for text in prompts]
        self._ids: tuple[int, ...] = ()
        return Observation(list(self.conversation))

    def step(self, action: Message) -> tuple[Observation, Reward]:
        """Append `action`, read as a user's, and its answer; return the conversation and 0."""
        chat, first = self._backend.chat, not self._ids
        rules = self.system_prompt or "" if first else None
        turn = ChatTurn(action.content, rules, None if first else self._ids[-1])
        ids = self._ids + chat.prompts([turn])[0]
        request = Request(ids, self.generation_config, next(self._seeds))
        [completion] = self._backend.sample([request])
        self._ids = ids + completion.ids
        self.conversation += [action, Message(MessageRole.ASSISTANT, chat.text(completion.ids))]
        return Observation(list(self.conversation)), Reward(0.0)
