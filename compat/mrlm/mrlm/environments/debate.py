"""Debate of one agent with an opponent about a motion, scored by a judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mrlm.environments.task import GameEnvironment
from srl_agents.llm.judge import LLMJudge
from srl_envs import registry
from srl_envs.tasks.debate import Judge, sample_speeches
from srl_envs.tasks.debate import RuleJudge as RuleBasedJudge

__all__ = ["DebateEnvironment", "LLMJudge", "RuleBasedJudge"]

SIDES = ("pro_0", "con_0")


class DebateEnvironment(GameEnvironment):
    """debate_v0 of srl_envs for one agent, with a random motion and side in every episode.

    Both sides speak in each round; the opponent draws sample speeches. The reward of the last step
    is the judge's score of the agent, from 0 to 1; all other rewards are 0.

    Args:
        topics: Motions, or a JSONL file of motions; None selects srl_envs' training motions.
        max_turns: Number of rounds.
        judge: Judge of the speeches, not with `server_address`; None selects RuleBasedJudge.
        server_address: Address ("host:port") of a server that runs the debate; None runs it here.

    Raises:
        EnvConfigError: An argument is not allowed.
        RemoteError: No server answers at `server_address`, or `judge` cannot be sent.
    """

    def __init__(
        self,
        topics: Sequence[str] | str | None = None,
        max_turns: int = 6,
        judge: Judge | None = None,
        server_address: str | None = None,
    ) -> None:
        options: dict[str, Any] = {"debate_rounds": max_turns, "scoring": "quality"}
        given = {"topics": topics, "judge": judge}
        options |= {name: value for name, value in given.items() if value is not None}
        server = "" if server_address is None else f"{registry.SERVED}{server_address}/"
        super().__init__(f"{server}debate_v0", options)

    def choose_agent(self, infos: Mapping[str, Mapping[str, Any]]) -> str:
        agent, self._opponent = SIDES if self.rng.random() < 0.5 else SIDES[::-1]
        self._motion = infos[agent]["motion"]
        return agent

    def other_answers(self) -> Mapping[str, str]:
        side = self._opponent.removesuffix("_0")
        [speech] = sample_speeches(self.rng, self._motion, side, 1)
        return {self._opponent: speech}
