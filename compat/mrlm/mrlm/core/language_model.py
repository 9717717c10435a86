"""A language model as an environment: a conversation with it, and weights that learn."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mrlm.core.environment import EnvironmentMode
from mrlm.core.types import GenerationConfig, Message, MessageRole, Observation, Reward
from srl_agents.llm.chat_format import Turn

if TYPE_CHECKING:
    from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend

RewardFunction = Callable[[Sequence[Message]], float]
_SPOKEN_BY_OTHERS = (MessageRole.USER, MessageRole.ENVIRONMENT)


class LLMEnvironment:
    """A model and its tokenizer; `step` says something to it, and its answer is observed.

    In SERVER mode its weights learn, in CLIENT mode they are frozen. `reward_fn` is given the
    conversation, its answer last, and says what that is worth; without one an answer is worth 0.
    `device` moves the model; where none is named, trainers move it from the CPU to an accelerator
    if there is one. A conversation never ends by itself.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        mode: EnvironmentMode | str = EnvironmentMode.CLIENT,
        generation_config: GenerationConfig | None = None,
        reward_fn: RewardFunction | None = None,
        system_prompt: str | None = None,
        device: str | None = None,
    ) -> None:
        """Raises BackendError for a tokenizer without a usable chat template."""
        # Only here: it takes torch.
        from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend

        self.model = model if device is None else model.to(device)
        self.tokenizer, self.device = tokenizer, device
        self.generation_config = generation_config or GenerationConfig()
        self.reward_fn = reward_fn
        self.system_prompt = system_prompt
        self._backend: HuggingFaceBackend = HuggingFaceBackend(self.model, tokenizer)
        self._conversation: list[Message] = []
        self._seeds = itertools.count()
        self.set_mode(mode)

    def set_mode(self, mode: EnvironmentMode | str) -> None:
        """Let the weights learn (SERVER), or freeze them (CLIENT)."""
        self.mode = EnvironmentMode(mode)
        self.model.requires_grad_(self.mode is EnvironmentMode.SERVER)

    def reset(self) -> Observation:
        """Forget the conversation."""
        said = [] if self.system_prompt is None else [self.system_prompt]
        self._conversation = [Message(MessageRole.SYSTEM, text) for text in said]
        return Observation(list(self._conversation))

    def step(self, action: Message) -> tuple[Observation, Reward]:
        """Say something to the model, and observe the conversation with its answer.

        Raises BackendError where the conversation is longer than the model reads.
        """
        if not self._conversation:
            self.reset()
        self._conversation.append(action)
        self._conversation.append(self.reply(self._conversation))
        worth = 0.0 if self.reward_fn is None else float(self.reward_fn(self._conversation))
        return Observation(list(self._conversation)), Reward(worth)

    def reply(self, messages: Sequence[Message], seed: int | None = None) -> Message:
        """The model's answer to a conversation, which is not kept.

        What is drawn comes from `seed`, or from how many answers there were before. Raises
        BackendError as `step`, and EnvError for a conversation that is not the model's turn.
        """
        from srl_agents.llm.backends.token_backend import Request

        context = self._as_tokens(messages)
        drawn = next(self._seeds) if seed is None else seed
        asked = Request(context, self.generation_config.sampling(), drawn)
        [completion] = self._backend.sample([asked])
        return Message(MessageRole.ASSISTANT, self._backend.chat.text(completion.ids))

    def get_conversation(self) -> list[Message]:
        """What was said so far."""
        return list(self._conversation)

    def set_conversation(self, messages: Sequence[Message]) -> None:
        """Go on from another conversation."""
        self._conversation = list(messages)

    def set_reward_function(self, reward_fn: RewardFunction | None) -> None:
        """Judge answers by another function."""
        self.reward_fn = reward_fn

    def close(self) -> None:
        """Nothing is held but the model, which is its owner's."""

    def _as_tokens(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """A conversation as the model reads it, as it would have been had turn by turn."""
        chat = self._backend.chat
        rules = "\n\n".join(m.content for m in messages if m.role is MessageRole.SYSTEM)
        context: tuple[int, ...] = ()
        heard: list[str] = []
        last: int | None = None
        for message in messages:
            if message.role in _SPOKEN_BY_OTHERS:
                heard.append(message.content)
            elif message.role is MessageRole.ASSISTANT:
                context += self._turn(heard, rules, last)
                context += (*chat.answer(message.content), chat.end_of_turn)
                heard, last = [], chat.end_of_turn
        return context + self._turn(heard, rules, last)

    def _turn(self, heard: Sequence[str], rules: str, last: int | None) -> tuple[int, ...]:
        opening = rules if last is None else None
        turn = Turn("\n\n".join(heard), opening, last)
        return self._backend.chat.prompts([turn])[0]
