"""An environment of messages as a PettingZoo game of one agent that writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mrlm.core.types import Message, MessageRole, Observation, Reward
from srl_envs.errors import EnvError
from srl_envs.games.round_game import metadata_of
from srl_envs.tasks.free_text_game import RENDER_MODES, FreeTextGame, FreeTextView, Outcome
from srl_envs.text.spaces import TEXT_LENGTH

if TYPE_CHECKING:
    from mrlm.core.environment import SimulatedEnvironment

AGENT = "agent_0"
RULES = "You are given a task. What you write is your answer."


class WrittenGame(FreeTextGame):
    """The game that `environment`, which it owns, is: an action is the text of an answer.

    Observed is what was said since the last answer. Infos are the observation's, with the reward's
    components. Raises EnvError for what is no observation, reward or finite number.
    """

    metadata: ClassVar[dict[str, Any]] = metadata_of("mrlm_v0", render_modes=RENDER_MODES)

    def __init__(self, environment: SimulatedEnvironment) -> None:
        self.environment = environment
        self.metadata = {**type(self).metadata, "name": type(environment).__name__}  # type: ignore[misc]
        self._told = ""
        super().__init__(
            [AGENT],
            low=(0.0,),
            high=(1.0,),
            max_cycles=environment.max_turns,
            obs_mode="llm",
            render_mode=None,
        )

    def make_view(self) -> FreeTextView:
        """The rules are what the environment says itself."""
        return FreeTextView(RULES)

    def begin(self, options: Mapping[str, Any]) -> None:
        """Start an episode from this game's own randomness."""
        self.environment.seed(int(self.np_random.integers(2**31)))
        self._told = self._told_by(self.environment.reset())

    def take(self, answers: Mapping[str, str], over: bool) -> dict[str, Outcome]:
        """One answer."""
        stepped = self.environment.step(Message(MessageRole.ASSISTANT, answers[AGENT]))
        if not (isinstance(stepped, tuple) and len(stepped) == 2):
            raise EnvError(f"{self._name}.step() gave {stepped!r:.80}: give (Observation, Reward)")
        observation, reward = stepped
        self._told = self._told_by(observation)
        if not isinstance(reward, Reward):
            raise EnvError(f"{self._name}.step() gave the reward {reward!r:.80}: give a Reward")
        told = {**observation.info, **reward.info, **reward.components}
        return {AGENT: Outcome(float(reward.value), bool(observation.done), told)}

    def prompt(self, agent: str) -> str:
        """What was said since the last answer."""
        return self._told[:TEXT_LENGTH]

    def numbers(self, agent: str) -> tuple[float]:
        """The coming turn / (turns + 1)."""
        return ((self.played + 1) / (self.rounds + 1),)

    def sample_answers(
        self, agent: str, rng: np.random.Generator, count: int
    ) -> tuple[str, ...] | None:
        """What the environment offers for the embedded model's warm start."""
        return tuple(dict.fromkeys(self.environment.sample_answers(rng, count))) or None

    def close(self) -> None:
        """Close the environment."""
        self.environment.close()

    @property
    def _name(self) -> str:
        return type(self.environment).__name__

    def _told_by(self, observation: Any) -> str:
        if not isinstance(observation, Observation):
            raise EnvError(f"{self._name} gave {observation!r:.80}: give an Observation")
        new: list[str] = []
        for message in observation.messages:
            if message.role is MessageRole.ASSISTANT:
                new.clear()
            else:
                new.append(message.content)
        return "\n\n".join(new)
