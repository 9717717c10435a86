"""Counterfactual influence of actions on the other agents' rewards, by playing turns again.

For agent i with action a in turn t, the other agents' actions and the game's chance as they were,
the immediate effect on j is

    r_j(a, a_-i) - mean of r_j(a', a_-i) over i's other legal actions a'

as in difference rewards (Wolpert and Tumer 2002, "Optimal payoff functions for members of
collectives") with another agent's reward in place of the team's, and the default action replaced
by the mean over actions as in COMA's baseline (Foerster et al. 2018, eq. 4). Positive: i helped j.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete

from srl_agents.episode import AgentStep, Episode
from srl_agents.errors import EpisodeError
from srl_agents.evaluation.interactions.graph import Pair
from srl_agents.evaluation.replay import SAME, replay
from srl_agents.rollout import played_action
from srl_envs.games.round_game import RoundGame
from srl_envs.text.view import TextAction

ALTERNATIVES = 3
"""Other actions that are tried at most in an agent's turn, drawn at random where more are legal."""
TURNS = 12
"""Turns of a game in which others are tried at most, drawn at random where there are more."""

FIXED = ("action_spaces", "observation_spaces", "state_space", "text_view", "rules")


class Watched:
    """An environment that remembers what it last said of its agents: which actions are legal."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self.render_mode = None
        self.metadata = env.metadata
        self.infos: Mapping[str, Any] = {}

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

    def others(self, step: AgentStep) -> list[int]:
        """The agent's other legal actions, in order; none where its actions are not discrete."""
        space, taken = self.env.action_space(step.agent), step.decision.action
        if not isinstance(space, Discrete) or not isinstance(taken, int | np.integer):
            return []
        mask = self.infos.get(step.agent, {}).get("action_mask")
        legal = range(int(space.n)) if mask is None else np.flatnonzero(mask).tolist()
        return [action for action in legal if action != taken]


def effects(episode: Episode, env: Any, rng: np.random.Generator) -> dict[Pair, float]:
    """(i, j) -> the mean over i's turns of its immediate effect on j, in reward units.

    `env` is the episode's environment, made anew, and can be deep-copied. Turns in which i had one
    action only are left out, and so are pairs without any other turn. Raises EpisodeError as
    `replay`, and where the environment cannot be copied.
    """
    watched = Watched(env)
    count = len(episode.turns)
    tried = set(rng.choice(count, TURNS, replace=False).tolist() if count > TURNS else range(count))
    found: dict[Pair, list[float]] = {}
    shown = replay(episode, watched)
    for number, turn in enumerate(episode.turns):
        next(shown)  # plays the turn before, and compares it with the record
        if {step.agent for step in turn} != set(watched.agents):
            break  # which replay tells below
        if number not in tried:
            continue
        for step in turn:
            others = watched.others(step) if step.decision.asked else []
            if len(others) > ALTERNATIVES:
                others = sorted(rng.choice(others, ALTERNATIVES, replace=False).tolist())
            if not others:
                continue
            instead = [_rewards(env, turn, step.agent, action) for action in others]
            for other in turn:
                if other.agent != step.agent:
                    mean = sum(rewards[other.agent] for rewards in instead) / len(instead)
                    same = math.isclose(other.reward, mean, rel_tol=SAME, abs_tol=SAME)
                    effect = 0.0 if same else other.reward - mean
                    found.setdefault((step.agent, other.agent), []).append(effect)
    for _ in shown:
        pass
    return {pair: sum(own) / len(own) for pair, own in found.items()}


def _rewards(env: Any, turn: tuple[AgentStep, ...], agent: str, action: int) -> dict[str, float]:
    """What the turn would have paid, had the agent done `action` (and said the same words)."""
    actions = {step.agent: played_action(step.decision) for step in turn}
    said = actions[agent]
    actions[agent] = TextAction(action, said.text) if isinstance(said, TextAction) else action
    # What says how a game is played, not where it stands, is shared by the copies: half the time.
    game = env.unwrapped
    fixed = [getattr(game, name, None) for name in FIXED] if isinstance(game, RoundGame) else []
    try:
        copied = copy.deepcopy(env, {id(one): one for one in fixed})
    except (TypeError, copy.Error) as error:  # what holds connections or locks
        raise EpisodeError(f"{env.metadata['name']} cannot be copied: {error}") from error
    _, rewards, *_ = copied.step(actions)
    return {other: float(reward) for other, reward in rewards.items()}
