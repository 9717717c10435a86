"""Recorded games played again with one action changed, others' actions and chance as they were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete

from srl_agents.episode import AgentStep, Decision
from srl_agents.rollout import played_action
from srl_agents.rollout.copies import copied
from srl_envs.text import fallback_action

Turn = tuple[AgentStep, ...]


class Watched:
    """An environment that remembers what it last said of its agents: which actions are legal."""

    def __init__(self, env: Any, infos: Mapping[str, Any] | None = None) -> None:
        self.env = env
        self.render_mode = None
        self.metadata = env.metadata
        self.infos: Mapping[str, Any] = infos or {}

    @property
    def agents(self) -> list[str]:
        """Those that are in play."""
        agents: list[str] = self.env.agents
        return agents

    def reset(self, seed: int, options: Mapping[str, Any]) -> Any:
        """As the environment's."""
        observations, self.infos = self.env.reset(seed=seed, options=options)
        return observations, self.infos

    def step(self, actions: Mapping[str, Any]) -> Any:
        """As the environment's."""
        outcome = self.env.step(actions)
        self.infos = outcome[-1]
        return outcome

    def copied(self) -> Watched:
        """The same apart. Raises EnvError for an environment that cannot be copied."""
        return Watched(copied(self.env), self.infos)

    def mask(self, agent: str) -> Any:
        """The agent's legal actions, as its info tells them; None where all are."""
        return self.infos.get(agent, {}).get("action_mask")

    def others(self, step: AgentStep) -> list[int]:
        """The agent's other legal actions, in order; none where its actions are not discrete."""
        space, taken = self.env.action_space(step.agent), step.decision.action
        if not isinstance(space, Discrete) or not isinstance(taken, int | np.integer):
            return []
        mask = self.mask(step.agent)
        legal = range(int(space.n)) if mask is None else np.flatnonzero(mask).tolist()
        return [action for action in legal if action != taken]

    def default(self, agent: str) -> Any:
        """What the agent plays where an answer cannot be read; where that is not legal now, its
        first legal action."""
        mask = self.mask(agent)
        action = fallback_action(self.env.unwrapped.text_view, mask)
        return action if mask is None or mask[action] else int(np.argmax(mask))


def played_instead(watched: Watched, turns: Sequence[Turn], agent: str, action: int) -> list[Turn]:
    """What the recorded `turns` would have been, had the agent done `action` in the first of them
    (and said the same words); `watched` is where they began, and stays there.

    Recorded actions that are not legal any more, and those of agents that had left, are replaced by
    the game's default. The game is over where the environment says so, or with the record. The
    steps have no observations. Raises EnvError for an environment that cannot be copied.
    """
    game = watched.copied()
    found: list[Turn] = []
    decisions = {step.agent: step.decision for step in turns[0]}
    decisions[agent] = replace(decisions[agent], action=action, parse_failure=None)
    for turn in turns:
        if not game.agents:
            break
        if found:
            recorded = {step.agent: step.decision for step in turn}
            decisions = {one: _still(game, one, recorded.get(one)) for one in game.agents}
        _, rewards, *_ = game.step({one: played_action(own) for one, own in decisions.items()})
        found.append(
            tuple(AgentStep(one, None, own, float(rewards[one])) for one, own in decisions.items())
        )
    return found


def _still(game: Watched, agent: str, recorded: Decision | None) -> Decision:
    """What the agent does by the record, or the game's default where it cannot."""
    mask = game.mask(agent)
    if recorded is not None and (mask is None or mask[recorded.action]):
        return recorded
    return Decision(game.default(agent))
