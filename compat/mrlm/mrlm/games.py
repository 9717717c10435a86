"""Environments of messages as PettingZoo games, alone or several as one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from mrlm.core.environment import SimulatedEnvironment
from mrlm.core.types import Message, MessageRole, Observation, Reward
from mrlm.environments.task import TaskEnvironment
from srl_envs import registry
from srl_envs.errors import EnvConfigError, EnvError
from srl_envs.games.base import metadata_of
from srl_envs.tasks.free_text_game import RENDER_MODES, FreeTextGame, FreeTextView, Outcome
from srl_envs.text import TEXT_LENGTH

AGENT = "agent_0"
RULES = "You are given a task. What you write is your answer."
NamedEnvironment = tuple[str, dict[str, Any]]
"""Name and options of an environment, as srl_envs.registry.make takes them."""


class WrittenGame(FreeTextGame):
    """PettingZoo ParallelEnv of one agent, over a copy of a SimulatedEnvironment.

    Actions are the texts of answers. An observation's text is that of all messages since the
    last answer, cut after TEXT_LENGTH characters. Infos have the keys of the observation's `info`
    and the reward's `info` and `components`. Episodes end after at most `max_turns` steps.

    Args:
        environment: Environment that is copied.
        obs_mode, render_mode: As in FreeTextGame.

    Raises:
        EnvError: Raised by `step`, if the environment's result is not (Observation, Reward).
    """

    metadata: ClassVar[dict[str, Any]] = metadata_of("mrlm_v0", render_modes=RENDER_MODES)

    def __init__(
        self,
        environment: SimulatedEnvironment,
        obs_mode: str = "llm",
        render_mode: str | None = None,
    ) -> None:
        self.environment = environment.copy()
        self.name = type(environment).__name__
        self.metadata = {**type(self).metadata, "name": self.name}  # type: ignore[misc]
        self._text = ""
        super().__init__(
            [AGENT],
            low=(0.0,),
            high=(1.0,),
            max_cycles=environment.max_turns,
            obs_mode=obs_mode,
            render_mode=render_mode,
        )

    def make_view(self) -> FreeTextView:
        return FreeTextView(RULES)

    def begin(self, options: Mapping[str, Any]) -> None:
        self.environment.seed(int(self.np_random.integers(2**31)))
        self._text = _unanswered(self.environment.reset())

    def take(self, answers: Mapping[str, str], over: bool) -> dict[str, Outcome]:
        result: Any = self.environment.step(Message(MessageRole.ASSISTANT, answers[AGENT]))
        match result:
            case (Observation() as observation, Reward() as reward):
                self._text = _unanswered(observation)
                info = {**observation.info, **reward.info, **reward.components}
                return {AGENT: Outcome(float(reward.value), bool(observation.done), info)}
        raise EnvError(f"{self.name}.step() must return (Observation, Reward), got {result!r:.80}")

    def prompt(self, agent: str) -> str:
        return self._text[:TEXT_LENGTH]

    def numbers(self, agent: str) -> tuple[float]:
        return ((self.played + 1) / (self.rounds + 1),)

    def close(self) -> None:
        self.environment.close()


def _unanswered(observation: Observation) -> str:
    texts: list[str] = []
    for message in observation.messages:
        texts = [] if message.role is MessageRole.ASSISTANT else [*texts, message.content]
    return "\n\n".join(texts)


def named_environment(environments: Sequence[SimulatedEnvironment]) -> NamedEnvironment:
    """Return (name, options), for registry.make, of one environment for all `environments`.

    Several become members of multitask_v0, which draws one for each episode; equal tasks or objects
    are one member. Raises EnvConfigError if there is none, or one is not a SimulatedEnvironment.
    """
    members: list[NamedEnvironment] = []
    for environment in environments:
        if not isinstance(environment, SimulatedEnvironment):
            raise EnvConfigError(
                f"eval_envs must contain SimulatedEnvironment objects, got {environment!r:.80}"
            )
        if isinstance(environment, TaskEnvironment):
            member = environment.name, environment.options
        else:
            member = f"{__name__}:{WrittenGame.__name__}", {"environment": environment}
        if member not in members:
            members.append(member)
    if not members:
        raise EnvConfigError("eval_envs must contain one or more environments, got none")
    if len(members) == 1:
        return members[0]
    named: dict[str, dict[str, Any]] = {}
    for name, options in members:
        own = options.get("environment")
        kind = type(own).__name__ if own else registry.served_name(name).removesuffix("_v0")
        label = kind if kind not in named else f"{kind}_{len(named)}"
        named[label] = {"name": name, "options": options}
    return "multitask_v0", {"environments": named}


def is_plain(options: Mapping[str, Any]) -> bool:
    """Return True if options can be written as JSON, and so in a configuration file."""
    try:
        json.dumps(options)
    except (TypeError, ValueError):
        return False
    return True
