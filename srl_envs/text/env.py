"""TextEnv: a wrapper that makes any environment with a text view one of words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pettingzoo import ParallelEnv
from pettingzoo.utils import BaseParallelWrapper

from srl_envs.errors import EnvError
from srl_envs.text.history import TextHistory
from srl_envs.text.spaces import ANSWER_LENGTH, TEXT_LENGTH, SpacesOfAgents, TextSpace
from srl_envs.text.view import (
    ParseFailure,
    TextView,
    action_with_text,
    feedback,
    read_answer,
    view_for,
)
from srl_envs.validation import Reset, Step, asks_nothing, shown, whole_number


class TextEnv(SpacesOfAgents, BaseParallelWrapper):  # type: ignore[misc]  # PettingZoo ships no types
    """Any environment that has a TextView, observed and answered in words.

    The first observation of an episode is the rules and the situation; later ones are what is
    new: the situation, after a word of feedback where the last answer could not be read, or named
    what is not legal now. With `history`, for readers that keep no conversation, every observation
    stands by itself: the rules, up to that many of the agent's own last turns in this episode, the
    feedback and the situation (laid out as in srl_envs.text.history). None is longer than
    TEXT_LENGTH: the oldest turns are left out first.

    An answer that is not read plays the view's default action (see `fallback_action`) and costs
    `parse_penalty`; its reason is in `infos[agent]["parse_failure"]` (None where the answer was
    read). `infos[agent]["action"]` is the action that was played. The environment gets actions as
    TextAction. Longer answers than the action space's are read all the same. All else is the
    environment's own.

    Raises EnvError for what is no ParallelEnv with a text view, and for a missing or unknown agent.
    """

    def __init__(self, env: Any, *, history: int | None = None) -> None:
        if not isinstance(env, ParallelEnv):
            raise EnvError(
                f"TextEnv got {shown(env)}: give a PettingZoo ParallelEnv with a text view"
            )
        if getattr(env.unwrapped, "text_view", None) is None:
            raise EnvError(f"{env} has no text view: give it a `text_view` (see TextView)")
        super().__init__(env)
        self.history = None if history is None else whole_number("history", history, low=0)
        self.observation_spaces = {agent: TextSpace(TEXT_LENGTH) for agent in env.possible_agents}
        self.action_spaces = {agent: TextSpace(ANSWER_LENGTH) for agent in env.possible_agents}
        self._masks: dict[str, Any] = {}
        self._seen: dict[str, Any] = {}
        self._situations: dict[str, str] = {}
        self._past: dict[str, TextHistory] = {}

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        """Start an episode; see the class for what is observed."""
        observations, infos = self.env.reset(seed=seed, options=options)
        self._keep(observations, infos)
        turns = self.history or 0
        self._past = {agent: TextHistory(turns, TEXT_LENGTH) for agent in self.possible_agents}
        return self._standing_alone(self._situations), infos

    def step(self, actions: Mapping[str, str]) -> Step:
        """Play one round with one answer in words per agent."""
        asks_nothing(bool(self._past), self.agents, actions)  # refuses what does not fit
        view: TextView = self.env.unwrapped.text_view
        played: dict[str, Any] = {}
        failures: dict[str, ParseFailure] = {}
        said: dict[str, str] = {}
        for agent, answer in actions.items():
            seen = self._seen[agent]
            action = read_answer(view, agent, seen, answer, self._masks[agent])
            if isinstance(action, ParseFailure):
                failures[agent], action = action, action.instead
                said[agent] = feedback(view_for(view, seen), agent, failures[agent]) + "\n"
            played[agent] = action
        spoken = {
            agent: action_with_text(action, actions[agent]) for agent, action in played.items()
        }
        observations, rewards, terminations, truncations, infos = self.env.step(spoken)
        for agent, answer in actions.items():
            unread = failures[agent].reason if agent in failures else None
            self._past[agent].add(self._situations[agent], str(answer), unread)
        for agent, info in infos.items():
            info["action"], info["parse_failure"] = played.get(agent), None
        for agent, failure in failures.items():
            rewards[agent] -= view.parse_penalty
            infos[agent]["parse_failure"] = failure.reason
        self._keep(observations, infos)
        texts = {
            agent: (said.get(agent, "") + now)[:TEXT_LENGTH]
            for agent, now in self._situations.items()
        }
        if self.history is not None:
            texts = self._standing_alone(texts)
        return texts, rewards, terminations, truncations, infos

    def _standing_alone(self, texts: Mapping[str, str]) -> dict[str, str]:
        view: TextView = self.env.unwrapped.text_view
        return {
            agent: self._past[agent].standing_alone(
                view_for(view, self._seen[agent]).rules(agent), now
            )
            for agent, now in texts.items()
        }

    def _keep(self, seen: Mapping[str, Any], infos: Mapping[str, Mapping[str, Any]]) -> None:
        view: TextView = self.env.unwrapped.text_view
        self._seen = dict(seen)
        self._situations = {
            agent: view.describe(agent, seen[agent])[:TEXT_LENGTH] for agent in seen
        }
        # Masks of our own, because the infos are the caller's to write into.
        masks = {agent: infos.get(agent, {}).get("action_mask") for agent in seen}
        self._masks = {a: None if mask is None else mask.copy() for a, mask in masks.items()}
