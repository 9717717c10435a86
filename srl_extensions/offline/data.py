"""Training data from recorded episodes and preference files, as tokens of a model."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from srl_agents.episode import AgentStep, Episode, from_json
from srl_agents.errors import EpisodeError
from srl_agents.llm.chat_format import ChatFormat
from srl_agents.llm.text_policy import turn_of
from srl_agents.policy import AgentObservation
from srl_envs.errors import DocumentError
from srl_envs.text import ParseFailure, TextView
from srl_envs.untrusted import read_json
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
    """One agent's part of an episode: a conversation and masks of the learned tokens."""

    input_ids: Tokens
    answers: Tokens
    """1 per token of an answer to imitate, including the end of turn."""
    observations: Tokens
    """1 per token of an observation after an answer; not the rules and the first observation."""

    @property
    def tokens(self) -> int:
        """Number of tokens in one forward pass."""
        return len(self.input_ids)


@dataclass(frozen=True)
class Preference:
    """Preferred and rejected answer to one prompt, as tokens."""

    prompt_ids: Tokens
    """Conversation up to the answer."""
    chosen_ids: Tokens
    rejected_ids: Tokens
    reference: tuple[float, float] | None = None
    """Log-probabilities of (chosen, rejected) under the reference, once known."""

    @property
    def tokens(self) -> int:
        """Number of tokens in one forward pass: the prompt with either answer."""
        return 2 * len(self.prompt_ids) + len(self.chosen_ids) + len(self.rejected_ids)


def with_references(pairs: Sequence[Preference], references: References) -> list[Preference]:
    """Return the pairs with their log-probabilities under the reference."""
    return [
        dataclasses.replace(pair, reference=(float(better), float(worse)))
        for pair, (better, worse) in zip(pairs, references, strict=True)
    ]


# Files


def _lines(path: str | Path) -> Iterator[tuple[str, str]]:
    """Yield ("FILE, line N", text) of each line that is not empty; raise DataError on failure."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield f"{path}, line {number}", line
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read the data {path} as text in UTF-8: {error}") from error


def _rows(path: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield ("FILE, line N", JSON object) of each line with text; raise DataError for others."""
    for where, line in _lines(path):
        try:
            row = read_json(line)
        except DocumentError as error:
            raise DataError(f"{where}: {error}") from error
        if not isinstance(row, dict):
            raise DataError(f"{where}: must be a JSON object, got {line[:60].strip()}")
        yield where, row


def begins_with_episode(path: str | Path) -> bool:
    """Return True if the file's first line is an episode; raises DataError for an empty file."""
    for _, row in _rows(path):
        return "schema_version" in row
    raise DataError(f"{path} is empty, must contain lines of JSON (docs/training/offline.md)")


def read_episodes(path: str | Path, environment: str, agents: Sequence[str]) -> list[Episode]:
    """Read the complete episodes of a file, without failed ones.

    Raises:
        DataError: For a line that is no episode of `environment` with `agents`.
    """
    episodes = []
    for where, line in _lines(path):
        try:
            episode = from_json(line)
        except EpisodeError as error:
            raise DataError(f"{where}: {error}") from error
        for name, found, wanted in (
            ("environment", [episode.environment], [environment]),
            ("agents", sorted(episode.seats), sorted(agents)),
        ):
            if found != wanted:
                raise DataError(
                    f"{where}: {name} must be the run's ({', '.join(wanted)}), got "
                    f"{', '.join(found)}"
                )
        if episode.failure is None and episode.turns:
            episodes.append(episode)
    return episodes


def read_preferences(path: str | Path) -> list[dict[str, Any]]:
    """Read the rows of a file in TRL's formats, all with text or all with lists of messages.

    Raises:
        DataError: With file and line.
    """
    rows: list[dict[str, Any]] = []
    for where, row in _rows(path):
        if set(row) != set(COLUMNS):
            raise DataError(f"{where}: keys must be {', '.join(COLUMNS)}, got {', '.join(row)}")
        for column, value in row.items():
            if not _is_chat(value) and not (value and isinstance(value, str)):
                raise DataError(
                    f"{where}: {column} must be text, or a list of messages with role and "
                    f"content, got {json.dumps(value)[:60]}"
                )
            if type(value) is not type((rows or [row])[0]["prompt"]):
                raise DataError(f"{where}: text and lists of messages cannot be mixed in a file")
        if row["chosen"] == row["rejected"]:
            raise DataError(f"{where}: chosen and rejected must differ, got the same answer")
        rows.append(row)
    return rows


def _is_chat(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(
            isinstance(one, dict) and all(isinstance(one.get(k), str) for k in ("role", "content"))
            for one in value
        )
    )


# Parts of episodes


def parts_of(episodes: Sequence[Episode], agents: Iterable[str] | None = None) -> list[Part]:
    """Return (episode index, agent) for each of `agents` (None: all) that made decisions.

    Agents that `srl collect` filtered out are omitted.
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
    """Return the parts (episode index, agent) with at least `min_return`, and of these the best.

    The best `top_fraction` (rounded up) is selected per start and agent, so that easy starts and
    better positions are not preferred. Of equal returns the first is selected.

    Raises:
        DataError: If `top_fraction` is below 1 and every start was played once.
    """
    worth = [returns(episode) for episode in episodes]

    def alike(some: Sequence[Part]) -> dict[tuple[str, int, str], list[Part]]:
        groups = defaultdict(list)
        for index, agent in some:
            groups[episodes[index].environment, episodes[index].seed, agent].append((index, agent))
        return groups

    if top_fraction < 1 and parts and len(alike(parts)) == len(parts):
        raise DataError(
            f"top_fraction must be 1 if each of {len(parts)} parts is the only one of its start "
            f"and agent (srl collect --group-size plays several), got {top_fraction:g}"
        )
    good = [part for part in parts if min_return is None or worth[part[0]][part[1]] >= min_return]
    kept: set[Part] = set()
    for own in alike(good).values():
        places = math.ceil(top_fraction * len(own) - 1e-9)  # 0.07 * 100 > 7 in floats
        kept.update(sorted(own, key=lambda part: -worth[part[0]][part[1]])[:places])
    return [part for part in good if part in kept]


# Tokens


def conversation(
    steps: Sequence[AgentStep], view: TextView, chat: ChatFormat
) -> list[tuple[Tokens, Tokens]]:
    """Return (prompt, answer) as tokens of `chat` for each turn.

    Recorded tokens are used if `chat` gives the same tokens: same tokenizer, template and text.
    Otherwise the recorded observations and answers are tokenized again, with the view's words for
    an action without text.
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
    """Tokenize the agent's part of the episode.

    Answers with parse failures are imitated only without `drop_parse_failures`.
    """
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

    The value of an answer is the mean reward-to-go over the episodes that contain it. A pair's
    values differ by more than `min_return_gap`. Most pairs are from the first turns, because
    episodes of a group diverge.
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
