"""Training data from recorded episodes and preference files, as tokens of a model."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from srl_agents.episode import AgentStep, Episode, from_json
from srl_agents.errors import EpisodeError
from srl_agents.llm.chat_format import ChatFormat
from srl_agents.llm.text_policy import turn_of
from srl_agents.policy import AgentObservation
from srl_envs.text import ParseFailure, TextView
from srl_train.errors import DataError
from srl_train.trajectory import Game

KEPT = "kept_agents"
"""Key in an episode's `extra` for the agents to learn from; all agents if it is missing."""

Part = tuple[int, str]
"""(index of the episode, agent)."""
Tokens = tuple[int, ...]
References = Sequence[tuple[float, float]]
"""Log-probabilities of (chosen, rejected) under the reference, per pair."""
COLUMNS = ("prompt", "chosen", "rejected")


@dataclass(frozen=True)
class Demonstration:
    """Conversation of one agent in an episode, with 0/1 masks of the learned tokens."""

    input_ids: Tokens
    answers: Tokens
    """1 at each token of an answer to imitate, including the end of turn."""
    observations: Tokens
    """1 at each token between two answers; 0 for the rules and the first observation."""

    @property
    def tokens(self) -> int:
        """Number of tokens of the conversation."""
        return len(self.input_ids)

    longest = tokens


@dataclass(frozen=True)
class Preference:
    """Preferred and rejected answer to a prompt, as tokens."""

    prompt_ids: Tokens
    """Conversation up to the answer."""
    chosen_ids: Tokens
    rejected_ids: Tokens
    reference: tuple[float, float] | None = None
    """Log-probabilities of (chosen, rejected) under the reference model; None if not computed."""

    @property
    def tokens(self) -> int:
        """Number of tokens in one forward pass: the prompt twice, with each answer."""
        return 2 * len(self.prompt_ids) + len(self.chosen_ids) + len(self.rejected_ids)

    @property
    def longest(self) -> int:
        """Number of tokens of the prompt and the longer answer."""
        return len(self.prompt_ids) + max(len(self.chosen_ids), len(self.rejected_ids))


# Files


def _lines(path: str | Path) -> Iterator[tuple[str, str]]:
    try:
        with Path(path).open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield f"{path}, line {number}", line
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read the data {path} as text in UTF-8: {error}") from error


def begins_with_episode(path: str | Path) -> bool:
    """Return True if the first line that is not blank has the text '"schema_version"'.

    Raises DataError if the file has only blank lines, or cannot be read as UTF-8 text.
    """
    for _, line in _lines(path):
        return '"schema_version"' in line
    raise DataError(f"{path} is empty, must contain lines of JSON (docs/training/offline.md)")


def read_episodes(path: str | Path, environment: str, agents: Sequence[str]) -> list[Episode]:
    """Read the episodes of a file in order, without failed ones and those without steps.

    Raises DataError for an unreadable file, or a line that is no episode of `environment` (metadata
    name) with exactly `agents`, in any order. Blank lines are skipped.
    """
    episodes = []
    for where, line in _lines(path):
        try:
            episode = from_json(line)
        except EpisodeError as error:
            raise DataError(f"{where}: {error}") from error
        if episode.environment != environment or set(episode.seats) != set(agents):
            raise DataError(
                f"{where}: the episode must be of {environment} with {', '.join(agents)}, got "
                f"{episode.environment} with {', '.join(episode.seats)}"
            )
        if episode.failure is None and episode.turns:
            episodes.append(episode)
    return episodes


class ChatMessage(TypedDict):
    """Message of a conversation: role, such as "user", and text."""

    role: str
    content: str


_Words = Annotated[str | list[ChatMessage], Field(min_length=1)]


class PreferenceRow(TypedDict):
    """Preference in TRL's standard format (texts) or conversational format (messages)."""

    prompt: _Words
    chosen: _Words
    rejected: _Words


_PAIR = TypeAdapter(PreferenceRow)


def read_preferences(path: str | Path) -> list[PreferenceRow]:
    """Read the rows of a JSONL file: "prompt", "chosen" and "rejected", texts or messages.

    Other columns are dropped and blank lines skipped. Raises DataError for an unreadable file, and
    for a row with a missing, empty or otherwise formed value.
    """
    rows = []
    for where, line in _lines(path):
        try:
            rows.append(_PAIR.validate_json(line))
        except ValidationError as error:
            [wrong, *_] = error.errors()
            raise DataError(
                f"{where}: prompt, chosen and rejected must be texts, or lists of messages with "
                f"role and content: {wrong['loc']}: {wrong['msg']}"
            ) from error
    return rows


# Parts of episodes


def parts_of(episodes: Sequence[Episode], agents: Iterable[str] | None = None) -> list[Part]:
    """Return (episode index, agent) for each episode and each of `agents` (None: all).

    Omits agents whose policy was never queried, and agents that `srl collect` did not select.
    """
    wanted = None if agents is None else set(agents)
    return [
        (index, agent)
        for index, episode in enumerate(episodes)
        for agent in episode.seats
        if (wanted is None or agent in wanted)
        and agent in episode.extra.get(KEPT, (agent,))
        and episode.asked_of(agent)
    ]


def best_of(
    parts: Sequence[Part],
    episodes: Sequence[Episode],
    returns: Callable[[Episode], Mapping[str, float]],
    *,
    min_return: float | None = None,
    top_fraction: float = 1.0,
) -> list[Part]:
    """Return the best parts (episode index, agent) of those with at least `min_return` (None: all).

    `returns` maps an episode to agent -> return. The best `top_fraction` (rounded up) is selected
    per agent and start (environment and seed). Of equal returns the first is selected. The result
    keeps the order of `parts`. Raises DataError if `top_fraction` is below 1 and parts exist,
    but no agent has several from a start.
    """
    worth = [returns(episode) for episode in episodes]
    alike: dict[tuple[str, int, str], list[Part]] = defaultdict(list)
    for index, agent in parts:
        alike[episodes[index].environment, episodes[index].seed, agent].append((index, agent))
    if top_fraction < 1 and parts and len(alike) == len(parts):
        raise DataError(
            f"top_fraction must be 1 if each of {len(parts)} parts is the only one of its start "
            f"and agent (srl collect --group-size plays several), got {top_fraction:g}"
        )
    kept: set[Part] = set()
    for own in alike.values():
        good = [part for part in own if min_return is None or worth[part[0]][part[1]] >= min_return]
        places = math.ceil(top_fraction * len(good) - 1e-9)  # 0.07 * 100 > 7 in floats
        kept.update(sorted(good, key=lambda part: -worth[part[0]][part[1]])[:places])
    return [part for part in parts if part in kept]


# Tokens


def conversation(
    steps: Sequence[AgentStep], view: TextView, chat: ChatFormat
) -> list[tuple[Tokens, Tokens]]:
    """Return (prompt, answer) as tokens of `chat`, for each of an agent's steps in one episode.

    A prompt contains only tokens after the previous answer; the first includes the rules. Recorded
    tokens are returned if `chat` gives the same tokens for all steps. Otherwise observations and
    answers are tokenized again, with the words of `view` for an action without text.
    """

    def prompts(answers: Sequence[Tokens]) -> list[Tokens]:
        turns = []
        failure: ParseFailure | None = None
        for number, step in enumerate(steps):
            seen = AgentObservation(step.agent, step.observation, messages=step.messages)
            last = answers[number - 1][-1] if number else None
            turns.append(turn_of(view, seen, failure, last))
            reason = step.decision.parse_failure
            failure = None if reason is None else ParseFailure(reason, step.decision.action)
        return chat.prompts(turns)

    tokens = [step.decision.tokens for step in steps]
    recorded = [(one.prompt_ids, one.completion_ids) for one in tokens if one is not None]
    if len(recorded) == len(steps) and all(answer for _, answer in recorded):
        written = prompts([answer for _, answer in recorded])
        if all(
            mine == theirs and chat.text(answer) == step.decision.text
            for mine, (theirs, answer), step in zip(written, recorded, steps, strict=True)
        ):
            return recorded
    texts = [
        view.answers(step.agent)[int(step.decision.action)]
        if step.decision.text is None
        else step.decision.text
        for step in steps
    ]
    answers = [(*chat.answer(text), chat.end_of_turn) for text in texts]
    return list(zip(prompts(answers), answers, strict=True))


def demonstration(
    episode: Episode,
    agent: str,
    view: TextView,
    chat: ChatFormat,
    *,
    drop_parse_failures: bool = True,
) -> Demonstration:
    """Join an agent's `conversation`; `drop_parse_failures` masks unparsable answers with 0."""
    steps = episode.asked_of(agent)
    ids: list[int] = []
    answers: list[int] = []
    observations: list[int] = []
    for number, (prompt, answer) in enumerate(conversation(steps, view, chat)):
        imitate = not drop_parse_failures or steps[number].decision.parse_failure is None
        ids += (*prompt, *answer)
        answers += [0] * len(prompt) + [int(imitate)] * len(answer)
        observations += [int(number > 0)] * len(prompt) + [0] * len(answer)
    return Demonstration(tuple(ids), tuple(answers), tuple(observations))


def preferences(
    parts: Sequence[Part],
    episodes: Sequence[Episode],
    view: TextView,
    chat: ChatFormat,
    game_of: Callable[[Episode], Game],
    *,
    min_return_gap: float = 0.0,
) -> list[Preference]:
    """Return pairs of different answers of one agent after the same start and conversation.

    `parts` are (episode index, agent). The value of an answer is the mean undiscounted shaped
    reward-to-go over the parts that contain it; `game_of` gives an episode's shaped rewards. The
    chosen answer has the higher value, by more than `min_return_gap`. Equal answers and values give
    no pair.
    """
    worth: dict[tuple[str, int, str, Tokens], dict[Tokens, list[float]]] = {}
    games = [game_of(episode) for episode in episodes]
    for index, agent in parts:
        episode, own = episodes[index], games[index][agent]
        asked = [n for n, step in enumerate(own.steps) if step.decision.asked]
        spans = conversation(episode.asked_of(agent), view, chat)
        context: Tokens = ()
        for number, (prompt, answer) in zip(asked, spans, strict=True):
            context += prompt
            answers = worth.setdefault((episode.environment, episode.seed, agent, context), {})
            answers.setdefault(answer, []).append(sum(own.shaped[number:]))
            context += answer
    found = []
    for (*_, context), answers in worth.items():
        means = {answer: sum(values) / len(values) for answer, values in answers.items()}
        for one, other in combinations(means, 2):
            better, worse = (one, other) if means[one] > means[other] else (other, one)
            if means[better] - means[worse] > min_return_gap:
                found.append(Preference(context, better, worse))
    return found
