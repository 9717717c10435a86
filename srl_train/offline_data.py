"""Data of the offline stages, from episodes or files: demonstrations, chats and preferences."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from srl_agents.episode import AgentStep, Episode, from_json
from srl_agents.errors import EpisodeError
from srl_agents.llm.chat_format import ChatFormat, ChatTurn
from srl_agents.llm.opponent_notes import History, PartnerNotes
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
Returns = Callable[[Episode], Mapping[str, float]]
"""Function from an episode to the value of each agent's part."""
Chat = Sequence[dict[str, str]]
"""Messages with role and content: optionally system, then user and assistant in turns."""
Tokens = tuple[int, ...]
References = Sequence[tuple[float, float]]
"""Log-probabilities of (chosen, rejected) under the reference, per pair."""
COLUMNS = ("prompt", "chosen", "rejected")
WANTED = {
    "sft": "a line of JSON per game, as `srl collect` writes them, or per chat, "
    '{"messages": [{"role": ..., "content": ...}, ...]}',
    "dpo": "episodes of `srl collect`, or preferences",
}
"""Stage to the content of its data files."""


@dataclass(frozen=True)
class Demonstration:
    """One agent's part of an episode: a conversation and masks of the learned tokens."""

    input_ids: tuple[int, ...]
    answers: tuple[int, ...]
    """1 per token of an answer to imitate, including the end of turn."""
    observations: tuple[int, ...]
    """1 per token of an observation after an answer; not the rules and the first observation."""

    @property
    def tokens(self) -> int:
        """Number of tokens in one forward pass."""
        return len(self.input_ids)


def read_episodes(path: str | Path, environment: str, agents: Sequence[str]) -> list[Episode]:
    """Read the complete episodes of a file, without failed ones.

    Raises DataError, with file and line, for a line that is no episode of `environment` with
    `agents`.
    """
    episodes = []
    for number, line in numbered_lines(path):
        try:
            episode = from_json(line)
        except EpisodeError as error:
            raise DataError(f"{path}, line {number}: {error}") from error
        if episode.environment != environment:
            raise DataError(
                f"{path}, line {number}: environment is {episode.environment}, must be the run's "
                f"({environment})"
            )
        if sorted(episode.seats) != sorted(agents):
            raise DataError(
                f"{path}, line {number}: agents are {', '.join(episode.seats)}, must be the run's "
                f"({', '.join(agents)})"
            )
        if episode.failure is None and episode.turns:
            episodes.append(episode)
    return episodes


def numbered_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yield (number from 1, text) of each line that is not empty; raises DataError."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read the data {path} as text in UTF-8: {error}") from error


def _records(path: str | Path, stage: str) -> Iterator[tuple[str, Any]]:
    """Yield ("FILE, line N", JSON value) of each line that is not empty; raises DataError."""
    for number, line in numbered_lines(path):
        where = f"{path}, line {number}"
        try:
            yield where, read_json(line)
        except DocumentError as error:
            raise DataError(f"{where}: {error}; give {WANTED[stage]}") from error


def begins_with_episode(path: str | Path, stage: str) -> bool:
    """Return True if the file's first line is an episode. Raises DataError for an empty file."""
    for _, record in _records(path, stage):
        return isinstance(record, dict) and "schema_version" in record
    raise DataError(f"{path} is empty: give {WANTED[stage]}")


def parts_of(episodes: Sequence[Episode], agents: Iterable[str] | None = None) -> list[Part]:
    """Return all parts of the episodes to learn from, of `agents` or of all agents."""
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
    """Return the parts with at least `min_return`, and of these the best share, in order.

    The best `top_fraction` (rounded up) is selected per start and agent, so that easy starts and
    better positions are not preferred. Of equal returns the first is selected.

    Raises:
        DataError: If `top_fraction` is below 1 and every start was played once.
    """
    worth = [returns(episode) for episode in episodes]
    if top_fraction < 1 and parts and len(_alike(parts, episodes)) == len(parts):
        raise DataError(
            f"top_fraction is {top_fraction:g}, must be 1: each of {len(parts)} parts is the only "
            "one of its start and agent (srl collect --group-size plays several)"
        )
    good = [part for part in parts if min_return is None or worth[part[0]][part[1]] >= min_return]
    kept: set[Part] = set()
    for own in _alike(good, episodes).values():
        places = math.ceil(top_fraction * len(own) - 1e-9)  # 0.07 * 100 > 7 in floats
        kept.update(sorted(own, key=lambda part: -worth[part[0]][part[1]])[:places])
    return [part for part in good if part in kept]


def _alike(
    parts: Sequence[Part], episodes: Sequence[Episode]
) -> dict[tuple[str, int, str], list[Part]]:
    """Group parts by start and agent."""
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
    """Tokenize the agent's part of the episode.

    Answers with parse failures are imitated only without `drop_parse_failures`.
    """
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
    """Return (prompt, answer) as tokens of `chat` for each turn.

    Recorded tokens are used if `chat` gives the same tokens: same tokenizer, template and text.
    Otherwise the recorded observations and answers are tokenized again, with the view's words for
    an action without text. `notes` are the opponent notes in the prompts.
    """

    def prompts(answers: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return chat.prompts(turns_of(steps, view, [ids[-1] for ids in answers], notes))

    tokens = [step.decision.tokens for step in steps]
    recorded = [(one.prompt_ids, one.completion_ids) for one in tokens if one is not None]
    if len(recorded) == len(steps) and all(answer for _, answer in recorded):
        written = prompts([answer for _, answer in recorded])
        if all(
            mine == theirs and chat.text(answer) == step.decision.text
            for mine, (theirs, answer), step in zip(written, recorded, steps, strict=True)
        ):
            return recorded
    answers = [(*chat.answer(words_of(step, view)), chat.end_of_turn) for step in steps]
    return list(zip(prompts(answers), answers, strict=True))


def words_of(step: AgentStep, view: TextView) -> str:
    """Return the recorded answer, or the view's words for the action."""
    text = step.decision.text
    return view.answers(step.agent)[int(step.decision.action)] if text is None else text


def turns_of(
    steps: Sequence[AgentStep], view: TextView, last: Sequence[int], notes: PartnerNotes | None
) -> list[ChatTurn]:
    """Return the prompts of each turn as in rollouts; `last` are the answers' final tokens."""
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


# Chats


def chat_lines(
    episodes: Sequence[Episode],
    parts: Sequence[Part],
    view: TextView,
    notes: PartnerNotes | None = None,
) -> str:
    """Return one line of JSON per part, {"messages": [...]}, rules first."""
    lines = []
    for index, agent in parts:
        messages = []
        steps = episodes[index].steps_of(agent)
        for turn, step in zip(turns_of(steps, view, [0] * len(steps), notes), steps, strict=True):
            if turn.rules is not None:
                messages.append({"role": "system", "content": turn.rules.strip()})
            messages.append({"role": "user", "content": turn.words.strip()})
            messages.append({"role": "assistant", "content": words_of(step, view)})
        lines.append(json.dumps({"messages": messages}) + "\n")
    return "".join(lines)


def read_chats(path: str | Path) -> list[Chat]:
    """Read the chats of a file. Raises DataError with file and line."""
    found: list[Chat] = []
    for where, record in _records(path, "sft"):
        messages = record.get("messages") if isinstance(record, dict) else None
        if not (isinstance(messages, list) and messages and all(map(_is_message, messages))):
            raise DataError(f"{where}: neither a game nor a chat: give {WANTED['sft']}")
        roles = [message["role"] for message in messages]
        spoken = roles[1:] if roles[:1] == ["system"] else roles
        if not spoken or spoken != ["user", "assistant"] * (len(spoken) // 2):
            raise DataError(
                f"{where}: roles are {', '.join(roles[:6])}, must be system or none, then user and "
                "assistant in turns, assistant last"
            )
        found.append([{"role": one["role"], "content": one["content"]} for one in messages])
    return found


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(value.get(key), str) for key in ("role", "content")
    )


def lesson(chat: Chat, form: ChatFormat) -> Demonstration:
    """Tokenize the chat with the model's template; only its answers are imitated."""
    ids: list[int] = []
    answers: list[int] = []
    observations: list[int] = []
    system = chat[0]["content"] if chat[0]["role"] == "system" else ""
    spoken = chat[1:] if chat[0]["role"] == "system" else chat
    for user, assistant in zip(spoken[::2], spoken[1::2], strict=True):
        turn = ChatTurn(
            user["content"], rules=None if ids else system, last=ids[-1] if ids else None
        )
        [prompt] = form.prompts([turn])
        answer = (*form.answer(assistant["content"]), form.end_of_turn)
        observations += [int(bool(ids))] * len(prompt) + [0] * len(answer)
        answers += [0] * len(prompt) + [1] * len(answer)
        ids += (*prompt, *answer)
    return Demonstration(tuple(ids), tuple(answers), tuple(observations))


# Preferences


@dataclass(frozen=True)
class Preference:
    """Two answers to one prompt, as tokens."""

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


def preferences(
    parts: Sequence[Part],
    episodes: Sequence[Episode],
    view: TextView,
    chat: ChatFormat,
    game_of: Callable[[Episode], Game],
    *,
    notes: PartnerNotes | None = None,
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
        context: Tokens = ()
        for number, (told, said) in zip(
            asked, conversation(episode.asked_of(agent), view, chat, notes), strict=True
        ):
            context += told
            answers = worth.setdefault((episode.environment, episode.seed, agent, context), {})
            answers.setdefault(said, []).append(sum(own.shaped[number:]))
            context += said
    found = []
    for (*_, prompt), answers in worth.items():
        means = {said: sum(values) / len(values) for said, values in answers.items()}
        for one, other in combinations(means, 2):
            better, worse = (one, other) if means[one] > means[other] else (other, one)
            if means[better] - means[worse] > min_return_gap:
                found.append(Preference(prompt, better, worse))
    return found


def read_preferences(path: str | Path) -> list[dict[str, Any]]:
    """Read the rows of a file in TRL's formats, all with text or all with lists of messages.

    Raises DataError with file and line.
    """
    rows: list[dict[str, Any]] = []
    for where, record in _records(path, "dpo"):
        if not isinstance(record, dict) or set(record) != set(COLUMNS):
            raise DataError(f"{where}: a preference has exactly the keys {', '.join(COLUMNS)}")
        for column, value in record.items():
            is_text = isinstance(value, str) and value
            is_chat = isinstance(value, list) and value and all(map(_is_message, value))
            if not (is_text or is_chat):
                raise DataError(
                    f"{where}: {column} is {json.dumps(value)[:60]}, must be text, or a list of "
                    "messages with role and content"
                )
            if type(value) is not type((rows or [record])[0]["prompt"]):
                raise DataError(f"{where}: text and lists of messages are mixed: give one of both")
        if record["chosen"] == record["rejected"]:
            raise DataError(f"{where}: chosen and rejected are the same")
        rows.append(record)
    return rows
