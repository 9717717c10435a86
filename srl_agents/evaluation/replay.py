"""Replays of recorded episodes, also with one action replaced."""

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
from srl_agents.rollout import played_action, played_actions
from srl_envs import registry
from srl_envs.errors import EnvError, UntrustedError
from srl_envs.text import fallback_action

TOLERANCE = 1e-9
"""Relative and absolute tolerance of rewards, whose last digits may differ between machines."""
CHANGED = "the record was modified, or is from another version of the environment"


def remade(
    episode: Episode, render_mode: str | None = "rgb_array", *, trusted: bool = False
) -> Any:
    """Construct the environment of a recorded episode again.

    Args:
        episode: Record with `made_as`.
        render_mode: Render mode of the environment; None passes no argument.
        trusted: True to allow a record that names code or files (srl_envs.registry.remake).

    Raises:
        EpisodeError: The record has no `made_as`, or names code or files and is not trusted.
        EnvConfigError: This release cannot construct the environment.
        ImportError: A package that the environment needs is missing.
    """
    made = episode.made_as
    if made is None:
        raise EpisodeError(
            f"the record does not contain the arguments of {episode.environment} (it is not in the "
            "registry, or was wrapped): construct the environment yourself and call replay()"
        )
    options = {key: value for key, value in made["options"].items() if key != "render_mode"}
    if render_mode is not None:  # A user's environment may have no such argument.
        options["render_mode"] = render_mode
    try:
        return registry.remake(made["name"], options, trusted=trusted)
    except UntrustedError as error:
        raise EpisodeError(
            f"{error}, or construct the environment yourself for replay()"
        ) from error


def replay(episode: Episode, env: Any) -> Iterator[Any]:
    """Replay a recorded episode in an environment, which is reset first and not closed.

    Args:
        episode: Record to replay.
        env: Environment constructed with the same arguments.

    Yields:
        `env.render()`, or None without a render mode, at the start and after each step.

    Raises:
        EpisodeError: The environment has another name, the start or an action is not possible, or
            the acting agents, a reward or (without a failure) the number of turns differ.
    """
    name = env.metadata["name"]
    if name != episode.environment:
        raise EpisodeError(f"the environment must be {episode.environment}, got {name}")
    try:
        env.reset(seed=episode.seed, options=dict(episode.reset_options))
    except EnvError as error:
        raise EpisodeError(f"the start cannot be replayed: {error}") from error
    yield _rendered(env)
    for number, turn in enumerate(episode.turns, start=1):
        acting = [step.agent for step in turn]
        if sorted(acting) != sorted(env.agents):
            raise EpisodeError(
                f"turn {number}: the record has actions of {', '.join(acting) or 'no agents'}, "
                f"active are {', '.join(env.agents) or 'none, because the episode is over'}"
            )
        try:
            _, rewards, *_ = env.step({s.agent: played_action(s.decision) for s in turn})
        except EnvError as error:
            raise EpisodeError(f"turn {number} cannot be replayed: {error}") from error
        for step in turn:
            reward = float(rewards[step.agent])
            if not math.isclose(reward, step.reward, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
                raise EpisodeError(
                    f"turn {number}, {step.agent}: the recorded reward is {step.reward!r}, the "
                    f"replayed one {reward!r}; {CHANGED}"
                )
        yield _rendered(env)
    if env.agents and episode.failure is None:
        raise EpisodeError(
            f"the record ends after turn {len(episode.turns)}, but the episode does not"
        )


def _rendered(env: Any) -> Any:
    return env.render() if getattr(env, "render_mode", None) is not None else None


def copied(env: Any) -> Any:
    """Return a deep copy of a running environment; raise EnvError if it cannot be copied."""
    try:
        return copy.deepcopy(env)
    except (TypeError, copy.Error) as error:  # Connections and locks cannot be copied.
        raise EnvError(f"{env.metadata['name']} cannot be copied: {error}") from error


Turn = tuple[AgentStep, ...]


class Watched:
    """Wrapper of an environment that stores the infos of the last reset or step.

    `infos` are those of the current state of `env`, if it is running. Because `render_mode` is
    None, `replay` renders nothing.
    """

    def __init__(self, env: Any, infos: Mapping[str, Any] | None = None) -> None:
        self.env = env
        self.render_mode = None
        self.metadata = env.metadata
        self.infos: Mapping[str, Any] = infos or {}
        """Agent -> info of the last reset or step."""

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

    def mask(self, agent: str) -> Any:
        """Return the agent's action mask (1 = legal) in `infos`, or None without a mask."""
        return self.infos.get(agent, {}).get("action_mask")

    def others(self, step: AgentStep) -> list[int]:
        """Return the legal actions of the step's agent except the recorded one.

        Without a mask, all are legal. The list is empty for actions that are not discrete.
        """
        space, taken = self.env.action_space(step.agent), step.decision.action
        if not isinstance(space, Discrete) or not isinstance(taken, int | np.integer):
            return []
        mask = self.mask(step.agent)
        legal = range(int(space.n)) if mask is None else np.flatnonzero(mask).tolist()
        return [action for action in legal if action != taken]

    def default(self, agent: str) -> Any:
        """Return the text view's `fallback_action`, or the first legal one if that is illegal.

        Raises AttributeError without a text view.
        """
        mask = self.mask(agent)
        action = fallback_action(self.env.unwrapped.text_view, mask)
        return action if mask is None or mask[action] else int(np.argmax(mask))


def played_instead(watched: Watched, turns: Sequence[Turn], agent: str, action: int) -> list[Turn]:
    """Play `turns` on a copy of `watched`, with `action` as the first action of `agent`.

    `turns` are the recorded steps from the environment's current state; `agent` acts in the first.
    Returns the steps until the episode or `turns` ends: decisions and new rewards only.
    `Watched.default` replaces later actions that are missing or illegal. Raises EnvError if the
    environment cannot be copied, or a step fails.
    """
    game = Watched(copied(watched.env), watched.infos)
    found: list[Turn] = []
    decisions = {step.agent: step.decision for step in turns[0]}
    decisions[agent] = replace(decisions[agent], action=action, parse_failure=None)
    for turn in turns:
        if not game.agents:
            break
        if found:
            recorded = {step.agent: step.decision for step in turn}
            decisions = {}
            for one in game.agents:
                decision, mask = recorded.get(one), game.mask(one)
                if decision is None or not (mask is None or mask[decision.action]):
                    decision = Decision(game.default(one))
                decisions[one] = decision
        _, rewards, *_ = game.step(played_actions(decisions))
        found.append(
            tuple(AgentStep(one, None, own, float(rewards[one])) for one, own in decisions.items())
        )
    return found
