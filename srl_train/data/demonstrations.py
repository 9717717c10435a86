"""SFT demonstrations: one tokenized conversation per agent and recorded game."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from srl_agents.episode import AgentStep, Episode, from_json
from srl_agents.errors import EpisodeError
from srl_agents.llm.chat_format import ChatFormat, Turn
from srl_agents.llm.opponent_notes import History, PartnerNotes
from srl_agents.llm.text_policy import turn_of
from srl_agents.policy import AgentObservation
from srl_envs.errors import DocumentError
from srl_envs.text import ParseFailure, TextView
from srl_envs.untrusted import read_json
from srl_train.errors import DataError

KEPT = "kept_agents"
"""In an episode's `extra`: the agents whose part is to be learned from; all where it is missing."""

Part = tuple[int, str]
"""(index of the episode, agent)."""
Returns = Callable[[Episode], Mapping[str, float]]
"""Episode -> agent -> what its game was worth."""


@dataclass(frozen=True)
class Demonstration:
    """One agent's part of a game: a conversation, and which of its tokens are learned."""

    input_ids: tuple[int, ...]
    answers: tuple[int, ...]
    """Per token: 1 in an answer that is to be imitated, its end of turn included."""
    observations: tuple[int, ...]
    """Per token: 1 in what the environment told after an answer; the rules and the first
    situation follow from nothing that was done."""

    @property
    def tokens(self) -> int:
        """How many the model reads in one pass."""
        return len(self.input_ids)


def read_episodes(path: str | Path, environment: str, agents: Sequence[str]) -> list[Episode]:
    """The games of a file that came to their end; those that failed are left out.

    Raises DataError naming file and line where a line is no episode, or one of another game than
    `environment` with `agents`.
    """
    episodes = []
    for number, line in numbered_lines(path):
        try:
            episode = from_json(line)
        except EpisodeError as error:
            raise DataError(f"{path}, line {number}: {error}") from error
        if episode.environment != environment:
            raise DataError(
                f"{path}, line {number}: a game of {episode.environment}, the run plays "
                f"{environment}: give games of the run's own environment"
            )
        if sorted(episode.seats) != sorted(agents):
            raise DataError(
                f"{path}, line {number}: a game of {len(episode.seats)} agents, "
                f"{', '.join(episode.seats)}; the run has {', '.join(agents)}"
            )
        if episode.failure is None and episode.turns:
            episodes.append(episode)
    return episodes


def numbered_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """(number from 1, text) of each line that is not empty; raises DataError naming the file."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line
    except OSError as error:
        raise DataError(f"cannot read the data {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not text in UTF-8: {error}") from error


def records(path: str | Path, wanted: str) -> Iterator[tuple[str, Any]]:
    """("FILE, line N", the value of its JSON) of each line that is not empty.

    Raises DataError naming file and line, which tells what is `wanted`.
    """
    for number, line in numbered_lines(path):
        where = f"{path}, line {number}"
        try:
            yield where, read_json(line)
        except DocumentError as error:
            raise DataError(f"{where}: {error}; give {wanted}") from error


def begins_with_episode(path: str | Path, wanted: str) -> bool:
    """Whether the file's first line is meant as an episode; raises DataError as `records`, and for
    a file without lines."""
    for _, record in records(path, wanted):
        return isinstance(record, dict) and "schema_version" in record
    raise DataError(f"{path} is empty: give {wanted}")


def parts_of(episodes: Sequence[Episode], agents: Iterable[str] | None = None) -> list[Part]:
    """Every part of the episodes that may be learned from, of `agents` or of all."""
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
    returns: Returns,
    *,
    min_return: float | None = None,
    top_fraction: float = 1.0,
) -> list[Part]:
    """Those of at least `min_return`, and of these the best `top_fraction` (rounded up) of each
    agent's games from each start, in order.

    Over all starts and agents the rank would be theirs: an easy start, or the better place, would
    take what a hard one is due. Equal returns go to whoever comes first. Raises DataError for a
    `top_fraction` below 1 where every start was played once: there is nothing to rank.
    """
    worth = [returns(episode) for episode in episodes]
    if top_fraction < 1 and parts and len(_alike(parts, episodes)) == len(parts):
        raise DataError(
            f"top_fraction is {top_fraction:g}, of each start's games, and each of {len(parts)} "
            "parts is the only one of its start and agent: give games in groups "
            "(srl collect --group-size)"
        )
    good = [part for part in parts if min_return is None or worth[part[0]][part[1]] >= min_return]
    kept: set[Part] = set()
    for own in _alike(good, episodes).values():
        places = math.ceil(
            top_fraction * len(own) - 1e-9
        )  # 0.07 * 100 is 7.000000000000001 in floats
        kept.update(sorted(own, key=lambda part: -worth[part[0]][part[1]])[:places])
    return [part for part in good if part in kept]


def _alike(
    parts: Sequence[Part], episodes: Sequence[Episode]
) -> dict[tuple[str, int, str], list[Part]]:
    """The parts of one agent in the games from one start, together."""
    found: dict[tuple[str, int, str], list[Part]] = {}
    for index, agent in parts:
        episode = episodes[index]
        found.setdefault((episode.environment, episode.seed, agent), []).append((index, agent))
    return found


def demonstration(
    episode: Episode,
    agent: str,
    view: TextView,
    chat: ChatFormat,
    *,
    notes: PartnerNotes | None = None,
    drop_parse_failures: bool = True,
) -> Demonstration:
    """The agent's part of the episode; answers that could not be read are imitated only without
    `drop_parse_failures`."""
    steps = episode.asked_of(agent)
    ids: list[int] = []
    answers: list[int] = []
    observations: list[int] = []
    for number, (told, said) in enumerate(conversation(steps, view, chat, notes)):
        imitate = not drop_parse_failures or steps[number].decision.parse_failure is None
        ids += (*told, *said)
        answers += [0] * len(told) + [int(imitate)] * len(said)
        observations += [int(number > 0)] * len(told) + [0] * len(said)
    return Demonstration(tuple(ids), tuple(answers), tuple(observations))


def conversation(
    steps: Sequence[AgentStep], view: TextView, chat: ChatFormat, notes: PartnerNotes | None = None
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(what the agent was told, what it answered), turn by turn, as tokens of `chat`.

    The recorded tokens are taken as they were sampled where `chat` writes the very same: same
    tokenizer, same template, same words. Anything else is written anew, from the recorded
    situations and answers; an action without words is answered in the view's. `notes` are those
    that the run's models are told.
    """

    def told(last: Sequence[int]) -> list[tuple[int, ...]]:
        return chat.prompts(turns_of(steps, view, last, notes))

    found = _as_recorded(steps, chat, told)
    if found is not None:
        return found
    answers = [(*chat.answer(words_of(step, view)), chat.end_of_turn) for step in steps]
    return list(zip(told([ids[-1] for ids in answers]), answers, strict=True))


def words_of(step: AgentStep, view: TextView) -> str:
    """The answer as it was written, or how the game calls the action."""
    text = step.decision.text
    return view.answers(step.agent)[int(step.decision.action)] if text is None else text


def _as_recorded(
    steps: Sequence[AgentStep],
    chat: ChatFormat,
    told: Callable[[Sequence[int]], list[tuple[int, ...]]],
) -> list[tuple[tuple[int, ...], tuple[int, ...]]] | None:
    tokens = [step.decision.tokens for step in steps]
    recorded = [(one.prompt_ids, one.completion_ids) for one in tokens if one is not None]
    if len(recorded) < len(steps) or not all(said for _, said in recorded):
        return None
    same = all(
        mine == theirs and chat.text(said) == step.decision.text
        for mine, (theirs, said), step in zip(
            told([said[-1] for _, said in recorded]), recorded, steps, strict=True
        )
    )
    return recorded if same else None


def turns_of(
    steps: Sequence[AgentStep], view: TextView, last: Sequence[int], notes: PartnerNotes | None
) -> list[Turn]:
    """What the agent was told before each turn, by the code that tells it to a player; `last` are
    the final tokens of its answers."""
    turns = []
    failure: ParseFailure | None = None
    history: History = ()
    for number, step in enumerate(steps):
        seen = AgentObservation(step.agent, step.observation, messages=step.messages)
        note = ""
        if notes is not None:
            history = notes.after(history, step.observation)
            note = notes.line(history)
        turns.append(turn_of(view, seen, failure, last[number - 1] if number else None, note))
        reason = step.decision.parse_failure
        failure = None if reason is None else ParseFailure(reason, step.decision.action)
    return turns
