"""Replay of a recorded episode: its environment rebuilt, its actions played again."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from srl_agents.episode import AgentStep, Episode
from srl_agents.errors import EpisodeError
from srl_agents.rollout import is_truncated, played_action
from srl_envs import registry
from srl_envs.errors import EnvError, UntrustedError

SAME = 1e-9
"""Relative and absolute: rewards may differ in their last digits from machine to machine."""
_ENDED = {None: "never ended", False: "was terminated", True: "was truncated"}


def remade(
    episode: Episode, render_mode: str | None = "rgb_array", *, trusted: bool = False
) -> Any:
    """The environment that the episode was played in, made anew from its record.

    A record that names code or files, anywhere, or asks for far too much is refused unless it is
    `trusted` (srl_envs.registry.remake). Raises EpisodeError for that and where the record does
    not say how it was made, and EnvConfigError where this release cannot make it.
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
    """What `env.render()` shows at the start and after each recorded turn (None without a mode).

    `env` is the environment of the episode, such as `remade(episode)`. Raises EpisodeError where
    what happens differs from the record, naming the turn and the agent: then the record was
    changed, or was made by another version of the game.
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
            _compare(number, step, float(rewards[step.agent]))
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
                f"{_ENDED[ends.get(agent)]}; the record was changed, or another version of the "
                "game made it"
            )


def _compare(number: int, step: AgentStep, reward: float) -> None:
    if not math.isclose(reward, step.reward, rel_tol=SAME, abs_tol=SAME):
        raise EpisodeError(
            f"turn {number}, {step.agent}: the record says that it earned {step.reward!r}, played "
            f"again it earns {reward!r}; the record was changed, or another version of the game "
            "made it"
        )


def _shown(env: Any) -> Any:
    return env.render() if getattr(env, "render_mode", None) is not None else None
