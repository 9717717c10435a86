"""Replays of recorded episodes, also with one action changed."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete

from srl_agents.episode import AgentStep, Decision, Episode
from srl_agents.errors import EpisodeError
from srl_agents.rollout import is_truncated, played_action
from srl_envs import registry
from srl_envs.errors import EnvError, UntrustedError
from srl_envs.games.base import RoundGame
from srl_envs.text import fallback_action

SAME = 1e-9
"""Relative and absolute: rewards may differ in their last digits from machine to machine."""
CHANGED = "the record was changed, or another version of the game made it"
_ENDED = {None: "never ended", False: "was terminated", True: "was truncated"}


def remade(
    episode: Episode, render_mode: str | None = "rgb_array", *, trusted: bool = False
) -> Any:
    """Return the environment of a recorded episode.

    `trusted` allows a record that names code or files (srl_envs.registry.remake).

    Raises:
        EpisodeError: The record is not trusted, or does not contain the constructor's arguments.
        EnvConfigError: This release cannot make the environment.
    """
    made = episode.made_as
    if made is None:
        raise EpisodeError(
            f"the record does not say how {episode.environment} was made (it was not the "
            "catalogue's, or was wrapped): make the environment yourself and call replay()"
        )
    drawn = {key: value for key, value in made["options"].items() if key != "render_mode"}
    if render_mode is not None:  # a game of one's own may take none
        drawn["render_mode"] = render_mode
    try:
        return registry.remake(made["name"], drawn, trusted=trusted)
    except UntrustedError as error:
        raise EpisodeError(f"{error}, or make the environment yourself for replay()") from error


def replay(episode: Episode, env: Any) -> Iterator[Any]:
    """Yield `env.render()` (None without a mode) at the start and after each recorded step.

    Raises:
        EpisodeError: If a reward or an end differs from the record.
    """
    name = env.metadata["name"]
    if name != episode.environment:
        raise EpisodeError(f"the episode is of {episode.environment}, the environment is {name}")
    try:
        env.reset(seed=episode.seed, options=dict(episode.reset_options))
    except EnvError as error:
        raise EpisodeError(f"the start cannot be played again: {error}") from error
    yield _shown(env)
    ends: dict[str, bool] = {}
    for number, turn in enumerate(episode.turns, start=1):
        movers = [step.agent for step in turn]
        if sorted(movers) != sorted(env.agents):
            raise EpisodeError(
                f"turn {number}: the record has moves of {', '.join(movers) or 'nobody'}, "
                f"in play are {', '.join(env.agents) or 'none, the game is over'}"
            )
        try:
            _, rewards, terminations, truncations, _ = env.step(
                {step.agent: played_action(step.decision) for step in turn}
            )
        except EnvError as error:
            raise EpisodeError(f"turn {number} cannot be played again: {error}") from error
        for step in turn:
            reward = float(rewards[step.agent])
            if not math.isclose(reward, step.reward, rel_tol=SAME, abs_tol=SAME):
                raise EpisodeError(
                    f"turn {number}, {step.agent}: the recorded reward is {step.reward!r}, the "
                    f"replayed one {reward!r}; {CHANGED}"
                )
            over = is_truncated(terminations, truncations, step.agent)
            if over is not None:
                ends[step.agent] = over
        yield _shown(env)
    if env.agents and episode.failure is None:
        raise EpisodeError(
            f"the record ends after turn {len(episode.turns)}, and the game goes on there"
        )
    recorded = {agent: end.truncated for agent, end in episode.ends.items()}
    for agent in sorted({*ends, *recorded}):
        if ends.get(agent) != recorded.get(agent):
            raise EpisodeError(
                f"the record says that {agent} {_ENDED[recorded.get(agent)]}, played again it "
                f"{_ENDED[ends.get(agent)]}; {CHANGED}"
            )


def _shown(env: Any) -> Any:
    return env.render() if getattr(env, "render_mode", None) is not None else None


FIXED = ("action_spaces", "observation_spaces", "state_space", "text_view", "rules")


def copied(env: Any) -> Any:
    """Return a deep copy of a running environment; raise EnvError if that is impossible."""
    # What says how a game is played, not where it stands, is shared by the copies: half the time.
    game = env.unwrapped
    fixed = [getattr(game, name, None) for name in FIXED] if isinstance(game, RoundGame) else []
    try:
        return copy.deepcopy(env, {id(one): one for one in fixed})
    except (TypeError, copy.Error) as error:  # what holds connections or locks
        raise EnvError(f"{env.metadata['name']} cannot be copied: {error}") from error


Turn = tuple[AgentStep, ...]


class Watched:
    """Environment that keeps its last infos."""

    def __init__(self, env: Any, infos: Mapping[str, Any] | None = None) -> None:
        self.env = env
        self.render_mode = None
        self.metadata = env.metadata
        self.infos: Mapping[str, Any] = infos or {}

    @property
    def agents(self) -> list[str]:
        agents: list[str] = self.env.agents
        return agents

    def reset(self, seed: int, options: Mapping[str, Any]) -> Any:
        observations, self.infos = self.env.reset(seed=seed, options=options)
        return observations, self.infos

    def step(self, actions: Mapping[str, Any]) -> Any:
        outcome = self.env.step(actions)
        self.infos = outcome[-1]
        return outcome

    def copied(self) -> Watched:
        return Watched(copied(self.env), self.infos)

    def mask(self, agent: str) -> Any:
        return self.infos.get(agent, {}).get("action_mask")

    def others(self, step: AgentStep) -> list[int]:
        """Return the agent's other legal discrete actions."""
        space, taken = self.env.action_space(step.agent), step.decision.action
        if not isinstance(space, Discrete) or not isinstance(taken, int | np.integer):
            return []
        mask = self.mask(step.agent)
        legal = range(int(space.n)) if mask is None else np.flatnonzero(mask).tolist()
        return [action for action in legal if action != taken]

    def default(self, agent: str) -> Any:
        """Return the default action, or the first legal one."""
        mask = self.mask(agent)
        action = fallback_action(self.env.unwrapped.text_view, mask)
        return action if mask is None or mask[action] else int(np.argmax(mask))


def played_instead(watched: Watched, turns: Sequence[Turn], agent: str, action: int) -> list[Turn]:
    """Return the recorded `turns` with another first action of `agent`, played from `watched`.

    Recorded actions that are no longer legal are replaced by the default. The steps have no
    observations. Raises EnvError if the environment cannot be copied.
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
    mask = game.mask(agent)
    if recorded is not None and (mask is None or mask[recorded.action]):
        return recorded
    return Decision(game.default(agent))
