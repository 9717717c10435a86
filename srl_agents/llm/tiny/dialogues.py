"""Dialogues of random legal play, to warm-start the tiny model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from srl_agents.errors import PolicyError
from srl_agents.evaluation.progress import LongWork
from srl_agents.llm.opponent_notes import History, PartnerNotes
from srl_envs.text import ParseFailure, TextView, feedback, read_answer, view_for
from srl_envs.wrappers import CustomRewards

UNREADABLE = ("", "I am not sure.", "both", "1", "yes yes yes")
UNREADABLE_SHARE = 0.05  # of answers: so that the model has seen itself go wrong, and recovers
FREE_ANSWERS = 64  # asked for at once where answers cannot be listed
FREE_GAMES = 8  # times as many games where answers cannot be listed: each asks something else
HEARD_SHARE = 0.1  # of turns in which another agent's words stand before the situation


@dataclass(frozen=True)
class Line:
    """One turn of a dialogue."""

    words: str
    """What the agent is told."""
    legal: tuple[str, ...]
    """The answers it may give."""
    answer: str
    """The answer it gave."""
    readable: bool
    """False for an answer that shows what not to write: it is read, never taught."""


@dataclass(frozen=True)
class Dialogue:
    """One agent's episode."""

    rules: str
    lines: tuple[Line, ...]


def random_dialogues(
    make_env: Callable[[], Any],
    games: int,
    turns: int,
    seed: int,
    notes: PartnerNotes | None = None,
) -> list[Dialogue]:
    """Every agent's dialogue in `games` episodes of at most `turns` turns each.

    Choices are uniform over the legal answers or, where any text is legal, over those that the
    environment's `sample_answers` offers. With `notes`, situations end with them.

    Raises:
        PolicyError: The environment has no text view, or neither legal nor sample answers.
    """
    rng = np.random.default_rng(seed)
    dialogues = []
    played = 0.0
    work = LongWork("embedded model, playing games to start from")
    while played < games:
        work.at(f"{played / games:.0%}")
        with closing(make_env()) as env:
            if isinstance(env, CustomRewards):
                env.reward_function = None  # which rewards a model's own answers
            view = getattr(env.unwrapped, "text_view", None)
            if view is None:
                raise PolicyError(f"{env} has no text view, so a language model cannot play it")
            dialogues += _play(env, view, turns, rng, notes)
            played += 1 if view.answers(env.possible_agents[0]) else 1 / FREE_GAMES
    return dialogues


def _play(
    env: Any, view: TextView, turns: int, rng: np.random.Generator, notes: PartnerNotes | None
) -> list[Dialogue]:
    observations, infos = env.reset(seed=int(rng.integers(2**31)))
    rules = {agent: view_for(view, seen).rules(agent) for agent, seen in observations.items()}
    lines: dict[str, list[Line]] = {agent: [] for agent in env.possible_agents}
    feedbacks = dict.fromkeys(env.possible_agents, "")
    histories: dict[str, History] = dict.fromkeys(env.possible_agents, ())
    for _ in range(turns):
        if not env.agents:
            break
        actions = {}
        for agent in env.agents:
            answers = view.answers(agent)
            free = not answers
            if free:
                answers = _samples(env, agent, rng)
            mask = infos.get(agent, {}).get("action_mask")
            legal = [i for i in range(len(answers)) if mask is None or mask[i]]
            chosen = int(rng.choice(legal))
            words = feedbacks[agent] + _heard(env, view, agent, rng)
            words += view.describe(agent, observations[agent])
            if notes is not None:
                histories[agent] = notes.after(histories[agent], observations[agent])
                words = f"{words}\n{notes.line(histories[agent])}".rstrip("\n")
            feedbacks[agent] = ""
            failure = None
            if rng.random() < UNREADABLE_SHARE:
                answer = UNREADABLE[rng.integers(len(UNREADABLE))]
                failure = read_answer(view, agent, observations[agent], answer, mask)
            if isinstance(failure, ParseFailure):
                actions[agent] = failure.instead
                own = view_for(view, observations[agent])
                feedbacks[agent] = feedback(own, agent, failure) + "\n"
            else:
                failure = None
                answer = answers[chosen]
                actions[agent] = answer if free else chosen
            lines[agent].append(
                Line(words, tuple(answers[i] for i in legal), answer, failure is None)
            )
        observations, _, _, _, infos = env.step(actions)
    return [Dialogue(rules[agent], tuple(said)) for agent, said in lines.items() if said]


def _samples(env: Any, agent: str, rng: np.random.Generator) -> tuple[str, ...]:
    """Answers to draw from where any text is legal; the environment must offer some."""
    offer = getattr(env.unwrapped, "sample_answers", None)
    offered = None if offer is None else offer(agent, rng, FREE_ANSWERS)
    if not offered:
        raise PolicyError(
            f"{env.metadata['name']} takes any text and offers no sample_answers to start the "
            "embedded model from: define them (docs/environments/tasks.md), or train another model"
        )
    return tuple(offered)


def _heard(env: Any, view: TextView, agent: str, rng: np.random.Generator) -> str:
    others = [other for other in env.agents if other != agent]
    if not others or rng.random() >= HEARD_SHARE:
        return ""
    speaker = others[rng.integers(len(others))]
    answers = view.answers(speaker)
    if not answers:
        return ""
    return f"{speaker} says: {answers[rng.integers(len(answers))]}\n"
