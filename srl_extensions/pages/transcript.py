"""Transcripts of episodes by turn, as tables and as animations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from srl_agents.episode import AgentStep, Episode
from srl_envs import registry
from srl_envs.errors import EnvError, UntrustedError
from srl_envs.loading import needed_by
from srl_envs.text import TextView
from srl_envs.untrusted import cut
from srl_extensions.pages.document import Document, Transcript, write_page

SHOWN_TURNS = 40
SHOWN_CHARACTERS = 1500
"""Limit in characters of one answer or observation."""


def view_of(
    episode: Episode, name: str, options: Mapping[str, Any], *, trusted: bool = False
) -> TextView | None:
    """Return the text view of the environment `name`, if it has the episode's name and agents.

    Returns None otherwise, if the environment cannot be made, and for an untrusted name that is not
    registered. Raises UntrustedError if untrusted options name code or files.
    """
    if registry.served_name(name) not in registry.names() and not trusted:
        return None
    try:
        made = registry.remake(name, options, trusted=trusted)
    except UntrustedError:
        raise
    except EnvError:  # options of another release
        return None
    with closing(made) as env:
        same_agents = set(episode.seats) == set(env.possible_agents)
        if env.metadata["name"] != episode.environment or not same_agents:
            return None
        view: TextView | None = env.unwrapped.text_view
        return view


def transcript(
    episode: Episode,
    view: TextView | None,
    frames: Iterable[bytes] | None = None,
    seconds: float | None = None,
) -> Transcript:
    """Return the first 40 turns of an episode for a table, or all turns for an animation.

    An animation shows `frames` for `seconds` each: PNG files of the state after the reset and after
    each turn. A table requires None for both. Without a `view`, observations and actions are shown
    as recorded. Long texts are cut.
    """
    if frames is None:
        last = min(SHOWN_TURNS, len(episode.turns))
        shown: dict[int, bytes | None] = dict.fromkeys(range(1, last + 1))
    else:
        shown, last = dict(enumerate(frames)), len(episode.turns)
    returns = ", ".join(
        f"{agent} {total:.4g}" for agent, total in sorted(episode.returns().items())
    )
    rules: dict[str, list[str]] = {}
    for agent in episode.seats:
        if view is not None:
            rules.setdefault(view.rules(agent), []).append(agent)
    turns = [(), *episode.turns]
    return Transcript(
        summary=f"Seed {episode.seed}, turns: {len(episode.turns)}. Returns: {returns}.",
        failure=None if episode.failure is None else cut(episode.failure, SHOWN_CHARACTERS),
        rules=[(", ".join(agents), words) for words, agents in rules.items()],
        turns=[
            {
                "number": number,
                "frame": frame,
                "steps": [_step(episode, step, view) for step in turns[number]],
            }
            for number, frame in shown.items()
        ],
        left_out=len(episode.turns) - last,
        seconds=seconds,
    )


def write_html(
    episode: Episode,
    frames: Iterable[np.ndarray],
    path: Path,
    seconds: float,
    *,
    view: TextView | None = None,
) -> Path:
    """Write a page that animates the frames, with the texts of each turn, and return `path`.

    Args:
        episode: Replayed episode.
        frames: Pictures after the reset and after each turn, uint8 of shape (height, width, 3).
        path: File to write.
        seconds: Time for which each frame is shown.
        view: Text view of the environment; without it, observations and actions are as recorded.

    Raises:
        ImportError: If Pillow is not installed.
        RunFolderError: If the file cannot be written.
    """
    with needed_by("an animation"):
        from PIL import Image

    pictures = []
    for frame in frames:
        file = BytesIO()
        Image.fromarray(frame).save(file, format="PNG")
        pictures.append(file.getvalue())
    shown = transcript(episode, view, pictures, seconds)
    return write_page(Document(episode.environment, "replayed episode", [shown]), path)


def _step(episode: Episode, step: AgentStep, view: TextView | None) -> dict[str, Any]:
    decision = step.decision

    def short(text: object) -> str:
        return cut(str(text), SHOWN_CHARACTERS)

    return {
        "agent": short(step.agent),
        "player": short(episode.seats.get(step.agent, "")),
        "saw": short(_situation(step, view)),
        "heard": [(short(speaker), short(words)) for speaker, words in step.messages],
        "answer": None if decision.text is None else short(decision.text),
        "asked": decision.asked,
        "failure": None if decision.parse_failure is None else short(decision.parse_failure),
        "action": short(_action(step, view)),
        "reward": f"{step.reward:.4g}",
    }


def _situation(step: AgentStep, view: TextView | None) -> str:
    if isinstance(step.observation, str):
        return step.observation
    if view is not None:
        # Recorded data may be invalid: observations that the view cannot describe are shown raw.
        with suppress(LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
            return view.describe(step.agent, step.observation)
    return _plain(step.observation)


def _action(step: AgentStep, view: TextView | None) -> str:
    action = step.decision.action
    if view is not None and isinstance(action, (int, np.integer)):
        answers = view.answers(step.agent)
        if 0 <= action < len(answers):
            return answers[action]
    return _plain(action)


def _plain(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return np.array2string(value, precision=3, separator=", ", threshold=60)
    if isinstance(value, Mapping):
        return "\n".join(f"{key}: {_plain(entry)}" for key, entry in value.items())
    return str(value)
