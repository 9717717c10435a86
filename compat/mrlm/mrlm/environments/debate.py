"""Debate: one agent argues for or against a motion, an opponent the other way, a judge decides."""

from __future__ import annotations

from collections.abc import Sequence

from mrlm.core.environment import EnvironmentMode, SimulatedEnvironment, frozen_only
from mrlm.core.language_model import LLMEnvironment
from mrlm.core.types import Message, MessageRole, Observation, Reward
from mrlm.environments.task import opening, told
from srl_agents.llm.judge import LLMJudge
from srl_envs import registry
from srl_envs.errors import EnvError
from srl_envs.tasks.debate.heuristic_judge import RuleJudge
from srl_envs.tasks.debate.judging import Judge
from srl_envs.tasks.debate.sample_speeches import sample_speeches
from srl_envs.text.env import TextEnv

__all__ = ["DebateEnvironment", "LLMJudge", "RuleBasedJudge"]

PRO, CON = "pro_0", "con_0"


class RuleBasedJudge(RuleJudge):
    """Judges the form of speeches by rules: length, relevance, response, reasons, evidence."""


class DebateEnvironment(SimulatedEnvironment):
    """debate_v0 of srl_envs for one agent, who is given a motion and a side by chance.

    Both sides speak in each of `max_turns` rounds, having heard the rounds before. The opponent is
    `opponent_model`, or says sentences in stock. The last turn earns the agent's score by `judge`,
    0 to 1. `topics` are motions, or a file of them; with `server_address` the debate is held by the
    rules of that server. Raises EnvConfigError for wrong arguments.
    """

    def __init__(
        self,
        topics: Sequence[str] | str | None = None,
        max_turns: int = 6,
        mode: EnvironmentMode | str = EnvironmentMode.CLIENT,
        judge: Judge | None = None,
        opponent_model: LLMEnvironment | None = None,
        server_address: str | None = None,
    ) -> None:
        frozen_only(mode)
        self.topics, self.max_turns, self.judge = topics, max_turns, judge
        self.opponent_model, self.server_address = opponent_model, server_address
        options = {"debate_rounds": max_turns, "scoring": "quality"}
        given = {"topics": topics, "judge": judge}
        options |= {name: value for name, value in given.items() if value is not None}
        served = "" if server_address is None else f"{registry.SERVED}{server_address}/"
        self._debate = TextEnv(registry.make(f"{served}debate_v0", **options))
        self._side, self._other = PRO, CON
        self._motion = ""
        self._said: list[Message] = []
        self._heard: list[Message] = []

    def copy(self) -> DebateEnvironment:
        """Another by the same settings, with the same judge and opponent."""
        return DebateEnvironment(
            self.topics,
            self.max_turns,
            judge=self.judge,
            opponent_model=self.opponent_model,
            server_address=self.server_address,
        )

    def reset(self) -> Observation:
        """Draw a motion and a side."""
        texts, infos = self._debate.reset(seed=int(self.rng.integers(2**31)))
        self._side, self._other = (PRO, CON) if self.rng.random() < 0.5 else (CON, PRO)
        self._motion = infos[self._side]["motion"]
        self._said = opening(self._debate, self._side, texts)
        self._heard = opening(self._debate, self._other, texts)
        return Observation(list(self._said), info=dict(infos[self._side]))

    def step(self, action: Message) -> tuple[Observation, Reward]:
        """Speak. Raises EnvError where no debate is under way."""
        if not self._debate.agents:
            raise EnvError("step() without a running debate: call reset() first")
        answer = self._opponent()
        spoken = {self._side: action.content, self._other: answer.content}
        outcome = self._debate.step(spoken)
        self._said.append(action)
        self._heard += [answer, Message(MessageRole.ENVIRONMENT, outcome[0][self._other])]
        return told(self._said, self._side, outcome)

    def close(self) -> None:
        """Close the debate."""
        self._debate.close()

    def _opponent(self) -> Message:
        """What the other side says."""
        if self.opponent_model is not None:
            return self.opponent_model.reply(self._heard, seed=int(self.rng.integers(2**31)))
        side = "pro" if self._other == PRO else "con"
        return Message(MessageRole.ASSISTANT, sample_speeches(self.rng, self._motion, side, 1)[0])
