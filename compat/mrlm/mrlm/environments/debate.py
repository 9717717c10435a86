"""Debate of one agent with an opponent about a motion, scored by a judge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mrlm.core.environment import SimulatedEnvironment
from mrlm.core.types import Message, Observation, Reward
from mrlm.environments.task import first_messages, observe
from srl_agents.llm.judge import LLMJudge
from srl_envs import registry
from srl_envs.errors import EnvError
from srl_envs.tasks.debate import Judge, sample_speeches
from srl_envs.tasks.debate import RuleJudge as RuleBasedJudge
from srl_envs.text import TextEnv

__all__ = ["DebateEnvironment", "LLMJudge", "RuleBasedJudge"]

SIDES = ("pro_0", "con_0")


class DebateEnvironment(SimulatedEnvironment):
    """debate_v0 of srl_envs for one agent, with a random motion and side in every episode.

    Both sides speak in each round; the opponent draws sample speeches. The last step has the
    reward: the judge's score of the agent, from 0 to 1.

    Args:
        topics: Motions, or a file of motions; by default, those of srl_envs.
        max_turns: Number of rounds.
        judge: Judge of the speeches; by default, RuleBasedJudge.
        server_address: Address ("host:port") of a server that runs the debate.

    Raises:
        EnvConfigError: An argument is not allowed.
    """

    def __init__(
        self,
        topics: Sequence[str] | str | None = None,
        max_turns: int = 6,
        judge: Judge | None = None,
        server_address: str | None = None,
    ) -> None:
        self.max_turns = max_turns
        self._arguments = (topics, max_turns, judge, server_address)
        options: dict[str, Any] = {"debate_rounds": max_turns, "scoring": "quality"}
        given = {"topics": topics, "judge": judge}
        options |= {name: value for name, value in given.items() if value is not None}
        server = "" if server_address is None else f"{registry.SERVED}{server_address}/"
        self._debate = TextEnv(registry.make(f"{server}debate_v0", **options))
        self._side, self._opponent = SIDES
        self._motion = ""
        self._messages: list[Message] = []

    def copy(self) -> DebateEnvironment:
        """Return another environment with the same settings and judge."""
        return DebateEnvironment(*self._arguments)

    def reset(self) -> Observation:
        """Start a debate with a random motion and side; return the first observation."""
        texts, infos = self._debate.reset(seed=int(self.rng.integers(2**31)))
        self._side, self._opponent = SIDES if self.rng.random() < 0.5 else SIDES[::-1]
        self._motion = infos[self._side]["motion"]
        self._messages = first_messages(self._debate, self._side, texts)
        return Observation(list(self._messages), info=dict(infos[self._side]))

    def step(self, action: Message) -> tuple[Observation, Reward]:
        """Speak, let the opponent speak, and return observation and reward.

        Raises EnvError if no debate is running.
        """
        if not self._debate.agents:
            raise EnvError("step() without a running debate: call reset() first")
        side = self._opponent.removesuffix("_0")
        [speech] = sample_speeches(self.rng, self._motion, side, 1)
        result = self._debate.step({self._side: action.content, self._opponent: speech})
        self._messages.append(action)
        return observe(self._messages, self._side, result)

    def close(self) -> None:
        """Close the debate."""
        self._debate.close()
