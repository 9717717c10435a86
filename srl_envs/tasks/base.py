"""Tasks: graded questions as an environment of one or several agents.

`TaskEnv(task)` is a complete environment; docs/environments/tasks.md has an example.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, ClassVar, TypeVar

import numpy as np

from srl_envs import loading
from srl_envs.errors import EnvConfigError, EnvError
from srl_envs.games.base import metadata_of
from srl_envs.games.maze_levels import SPLITS, TEST_SHARE
from srl_envs.tasks.free_text_game import (
    RENDER_MODES,
    FreeTextGame,
    FreeTextView,
    Outcome,
    readable_text,
)
from srl_envs.tasks.grading import final_answer
from srl_envs.text import TEXT_LENGTH, ParseFailure, Samples
from srl_envs.validation import (
    MOST_PLAYERS,
    check_choice,
    number_between,
    true_or_false,
    whole_number,
)

T = TypeVar("T")
QUESTION_LENGTH = TEXT_LENGTH * 3 // 4  # characters; the rest of the observation is feedback
DRAWS = 10_000  # problems to draw in search of one of the split
HOW_TO_ANSWER = "End with a line that holds your final answer alone: Answer: ..."


@dataclass(frozen=True)
class Problem:
    """Question with the data for grading; EnvConfigError if it is blank or too long."""

    question: str
    """Full question of up to QUESTION_LENGTH characters."""
    answer: Any = None
    """Truth for grading, never shown to an agent."""
    difficulty: int = 1
    key: str | None = None
    """Text that identifies the problem and determines its split; None for the question itself."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """Further data for the task, never shown to an agent."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """Plain data that are added to the agent's infos, such as the family."""

    def __post_init__(self) -> None:
        if not self.question.strip() or len(self.question) > QUESTION_LENGTH:
            raise EnvConfigError(
                f"question must have 1 to {QUESTION_LENGTH} characters, got "
                f"{len(self.question)}: {self.question:.60}"
            )

    @property
    def identity(self) -> str:
        """Hash of `key`, or of the question if `key` is None: 16 hexadecimal digits."""
        key = self.question if self.key is None else self.key
        return blake2b(key.encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()

    @property
    def split(self) -> str:
        """Split of the problem, fixed by `identity`: "train", or "test" for about one in five."""
        return SPLITS[int(self.identity, 16) % TEST_SHARE == 0]


def load_problems(
    path: str | os.PathLike[str] | None,
    read: Callable[[Any, int], Problem],
    families: object = None,
) -> tuple[Problem, ...] | None:
    """Return the problems in a JSONL file, in order, or None if `path` is None.

    Args:
        path: The file. Empty lines are skipped.
        read: Function of the JSON value and the number (from 1) of a line.
        families: Must be None if there is a path.

    Raises:
        EnvConfigError: Both arguments are given, the file is unreadable or contains no problem, or
            a line is not JSON or is refused by `read`.
        UntrustedError: An untrusted record names the path.
    """
    if path is None:
        return None
    if families is not None:
        raise EnvConfigError(f"families and path exclude each other, got {families!r} and {path!r}")
    problems = tuple(loading.read_rows(loading.place(path, "path"), "problems", read))
    if not problems:
        raise EnvConfigError(f"{path} contains no problem")
    return problems


def pick(rng: np.random.Generator, things: Sequence[T]) -> T:
    """Return one of `things`, drawn with equal probabilities; ValueError if there are none."""
    return things[int(rng.integers(len(things)))]


@dataclass(frozen=True)
class Grade:
    """Grade of an answer; EnvConfigError for a score that is no number from 0 to 1."""

    score: float
    """Score from 0 to 1."""
    correct: bool
    """True if the task is solved."""
    feedback: str = ""
    """Text shown before the next turn, which must not contain the answer."""
    finished: bool | None = None
    """True to end the agent's attempt; None for the value of `correct`."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """Plain data that are added to the agent's infos."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "score", number_between("score", self.score, 0.0, 1.0))

    @classmethod
    def right(cls, feedback: str = "That is right.") -> Grade:
        """Return the Grade of a right answer, with score 1.

        Args:
            feedback: Text for the agent.
        """
        return cls(1.0, True, feedback)

    @classmethod
    def wrong(cls, feedback: str = "That is not right.", score: float = 0.0) -> Grade:
        """Return the Grade of a wrong answer.

        Args:
            feedback: Text for the agent, which must not contain the answer.
            score: Partial score, 0 to 1.
        """
        return cls(score, False, feedback)


@dataclass
class Attempt:
    """State of one agent's attempt at one problem, in one episode."""

    problem: Problem
    seed: int
    memory: Any = None
    """State of the task, as returned by `Task.begin`."""
    turns: int = 0
    """Number of turns so far, including those with unreadable answers."""
    last: float = 0.0
    """Score of the last readable answer, 0 before the first."""
    best: float = 0.0
    """Best score so far."""
    solved: bool = False
    """True once an answer was correct."""
    feedback: str = ""
    """Text shown before the next turn."""


class Task(ABC):
    """Questions and their grading; subclasses define `name`, `draw`, `grade` and `rules`.

    All state of an episode is in an Attempt, so that several environments may share a task.
    """

    name: ClassVar[str]
    """Name of the environment, such as "math_v0"."""
    difficulties: tuple[int, int] = (1, 5)
    """Lowest and highest difficulty of `draw`."""
    attempts: int = 3
    """Default number of turns."""
    split: str = "train"
    """Default split."""
    attempt_penalty: float = 0.05
    """Default penalty, subtracted from the reward of every turn after the first."""
    problems: Sequence[Problem] = ()
    """Problems set by `use`; if empty, problems are drawn."""

    @abstractmethod
    def rules(self) -> str:
        """Return the instructions for the agent, without the form of an answer."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, difficulty: int) -> Problem:
        """Draw and return a Problem; not called after `use`.

        Args:
            rng: Source of all randomness.
            difficulty: Number within `difficulties`.
        """

    @abstractmethod
    def grade(self, problem: Problem, answer: str) -> Grade:
        """Return the Grade of an answer; implementations must not raise for any answer.

        Args:
            problem: Problem of the attempt.
            answer: Answer as returned by `read`.
        """

    def use(self, problems: Iterable[Problem]) -> None:
        """Use given problems instead of drawn ones, and set `split` to "any".

        Earlier environments use the problems, too, but keep their difficulties and split.

        Args:
            problems: At least one problem. Their range of difficulties becomes `difficulties`.

        Raises:
            EnvConfigError: There is no problem.
        """
        given = tuple(problems)
        if not given:
            raise EnvConfigError("problems must contain at least one problem, got none")
        self.problems = given
        levels = [problem.difficulty for problem in self.problems]
        self.difficulties, self.split = (min(levels), max(levels)), "any"

    def how_to_answer(self) -> str:
        """Return the form of an answer, shown after the rules; by default HOW_TO_ANSWER."""
        return HOW_TO_ANSWER

    def read(self, text: str) -> str | ParseFailure:
        """Return the answer in a text, by default `grading.final_answer`, or a ParseFailure.

        Implementations must not raise.

        Args:
            text: Text that is neither blank nor longer than ANSWER_LENGTH.
        """
        return final_answer(text)

    def begin(self, problem: Problem) -> Any:
        """Return the initial `Attempt.memory`, by default None.

        Args:
            problem: Problem of the attempt.
        """
        return None

    def respond(self, attempt: Attempt, answer: str) -> Grade:
        """Return the Grade of one turn with a readable answer, by default that of `grade`.

        Tasks in which a turn may be another action than an answer override this method.

        Args:
            attempt: State of the attempt. `turns` includes this turn, the scores do not.
            answer: Answer as returned by `read`.
        """
        return self.grade(attempt.problem, answer)

    def question(self, attempt: Attempt) -> str:
        """Return the question shown before the next turn, by default that of the problem.

        Args:
            attempt: State of the attempt.
        """
        return attempt.problem.question

    def sample_answers(self, rng: np.random.Generator, attempt: Attempt, count: int) -> Samples:
        """Return up to `count` texts in the right form without the truth; by default, None.

        Args:
            rng: Source of all randomness.
            attempt: State of the attempt.
            count: Largest number of texts.
        """
        return None


class TaskEnv(FreeTextGame):
    """Task as an environment: each agent works on a separate problem.

    The action of agent_0, agent_1, ... is the text that the agent writes. The reward of a turn is
    the increase of the agent's best score, less `attempt_penalty` after the first turn. An agent
    terminates when the task's grade ends its attempt (by default, when the answer is correct) or
    after `max_cycles` turns. An unreadable text uses up a turn.

    Observation vector: number of the next turn / (`max_cycles` + 1), last score, best score, solved
    (0 or 1).

    Infos: `score` and `correct` (of this turn; 0 and False if unreadable), `best_score`,
    `success` (True once solved), `attempt` (turns so far), `unreadable` (the reason, or None),
    `difficulty`, `problem` (its `identity`), `problem_seed`, and the infos of the problem and of
    the grade.

    Args:
        task: Task.
        num_agents: Number of agents.
        difficulty: Number in the range of the task, or (lowest, highest); by default, the range.
        split: "train", "test" or "any"; by default, that of the task.
        problem_seed: Seed of the problem of all agents in all episodes; by default, each agent gets
            a random one in each episode. The reset option "problem_seed" has precedence.
        same_problem: True if all agents get the same problem.
        attempt_penalty: Penalty of every turn after the first, 0 to 1; by default, that of the
            task.
        max_cycles: Number of turns; by default, the task's `attempts`.
        obs_mode: "llm", "dict" or "vector"; see FreeTextGame.
        render_mode: "human", "ansi" or None.

    Raises:
        EnvConfigError: An argument is invalid, or `problem(problem_seed)` fails.
            `reset` raises it too, if its `problem_seed` is invalid or `problem` fails.
    """

    metadata: ClassVar[dict[str, Any]] = metadata_of("task_v0", render_modes=RENDER_MODES)

    def __init__(
        self,
        task: Task,
        *,
        num_agents: int = 1,
        difficulty: int | Sequence[int] | None = None,
        split: str | None = None,
        problem_seed: int | None = None,
        same_problem: bool = False,
        attempt_penalty: float | None = None,
        max_cycles: int | None = None,
        obs_mode: str = "llm",
        render_mode: str | None = None,
    ) -> None:
        self.task = task
        self.metadata = {**type(self).metadata, "name": task.name}  # type: ignore[misc]
        self.difficulty = _range(difficulty, task.difficulties)
        chosen = task.split if split is None else split
        self.split: str = check_choice("split", chosen, (*SPLITS, "any"))
        self.same_problem = true_or_false("same_problem", same_problem)
        self.problem_seed = problem_seed
        penalty = task.attempt_penalty if attempt_penalty is None else attempt_penalty
        self.attempt_penalty = number_between("attempt_penalty", penalty, 0.0, 1.0)
        self._attempts: dict[str, Attempt] = {}
        agents = whole_number("num_agents", num_agents, 1, MOST_PLAYERS)
        super().__init__(
            [f"agent_{index}" for index in range(agents)],
            low=(0.0,) * 4,
            high=(1.0,) * 4,
            max_cycles=task.attempts if max_cycles is None else max_cycles,
            obs_mode=obs_mode,
            render_mode=render_mode,
        )
        if problem_seed is not None:
            self.problem(problem_seed)  # Raises if the split has no problem.

    def problem(self, seed: int) -> Problem:
        """Return the Problem that a seed determines, for the environment's difficulty and split.

        If no problem of `Task.use` has the drawn difficulty, all are eligible.

        Args:
            seed: Problem seed, at least 0.

        Raises:
            EnvConfigError: The seed is invalid, or none of DRAWS problems is of the split.
        """
        rng = np.random.default_rng(whole_number("problem_seed", seed, low=0))
        easiest, hardest = self.difficulty
        given = self.task.problems
        for _ in range(DRAWS):
            level = int(rng.integers(easiest, hardest + 1))
            if given:
                drawn = pick(rng, [one for one in given if one.difficulty == level] or given)
            else:
                drawn = self.task.draw(rng, level)
            if self.split in ("any", drawn.split):
                return drawn
        raise EnvConfigError(
            f"difficulty {easiest} to {hardest} of {self.task.name} has no problem with split "
            f"{self.split!r} among {DRAWS}: give another difficulty, or split='any'"
        )

    def attempt(self, agent: str) -> Attempt:
        """Return an agent's Attempt, with the truth; EnvError before reset or for unknown agents.

        Args:
            agent: Name of the agent.
        """
        if agent not in self._attempts:
            raise EnvError(f"{agent!r} has no attempt: call reset() for {self.possible_agents}")
        return self._attempts[agent]

    def sample_answers(self, agent: str, rng: np.random.Generator, count: int) -> Samples:
        """Return the task's sample answers for an agent, or None; EnvError as in `attempt`.

        Args:
            agent: Name of the agent.
            rng: Source of all randomness.
            count: Largest number of texts.
        """
        return self.task.sample_answers(rng, self.attempt(agent), count)

    def make_view(self) -> FreeTextView:
        task, turns = self.task, self.max_cycles
        tries = "" if turns == 1 else f" You have {turns} attempts."
        return FreeTextView(f"{task.rules()} {task.how_to_answer()}{tries}", task.read)

    def begin(self, options: Mapping[str, Any]) -> None:
        chosen = options.get("problem_seed", self.problem_seed)
        agents = len(self.possible_agents)
        seeds = self.np_random.integers(2**32, size=agents).tolist()
        if self.same_problem:
            seeds = seeds[:1] * agents
        if chosen is not None:
            seeds = [whole_number("problem_seed", chosen, low=0)] * agents
        problems = [self.problem(seed) for seed in seeds]  # May raise, before any state changes.
        attempts = map(Attempt, problems, seeds)
        self._attempts = dict(zip(self.possible_agents, attempts, strict=True))
        for attempt in self._attempts.values():
            attempt.memory = self.task.begin(attempt.problem)

    def first_info(self, agent: str) -> dict[str, Any]:
        return self._info(agent, None, None)

    def take(self, answers: Mapping[str, str], over: bool) -> dict[str, Outcome]:
        return {agent: self._answered(agent, text, over) for agent, text in answers.items()}

    def prompt(self, agent: str) -> str:
        attempt = self._attempts[agent]
        question = self.task.question(attempt)
        if not attempt.turns:
            return question[:TEXT_LENGTH]
        if attempt.solved or attempt.turns >= self.rounds:
            turn = f"Attempts used: {attempt.turns} of {self.rounds}."
        else:
            turn = f"Attempt {attempt.turns + 1} of {self.rounds}."
        room = TEXT_LENGTH - len(question) - len(turn) - 2
        return f"{question}\n{turn} {attempt.feedback[: max(0, room)]}".rstrip()[:TEXT_LENGTH]

    def numbers(self, agent: str) -> tuple[float, float, float, float]:
        attempt = self._attempts[agent]
        turn = (attempt.turns + 1) / (self.rounds + 1)
        return turn, attempt.last, attempt.best, float(attempt.solved)

    def _answered(self, agent: str, text: str, over: bool) -> Outcome:
        attempt, task = self._attempts[agent], self.task
        attempt.turns += 1
        reward = 0.0 if attempt.turns == 1 else -self.attempt_penalty
        checked = readable_text(text)
        answer = checked if isinstance(checked, ParseFailure) else task.read(checked)
        finished = over
        if isinstance(answer, ParseFailure):
            # An empty text replaces an unreadable answer, and the agent already has the reason.
            attempt.feedback = f"Not read: {answer.reason}." if text else ""
            info = self._info(agent, None, answer.reason)
        else:
            grade = task.respond(attempt, answer)
            attempt.last, attempt.feedback = grade.score, grade.feedback
            attempt.solved = attempt.solved or grade.correct
            reward += max(0.0, grade.score - attempt.best)
            attempt.best = max(attempt.best, grade.score)
            finished = over or (grade.correct if grade.finished is None else grade.finished)
            info = self._info(agent, grade, None)
        return Outcome(reward, finished, info)

    def _info(self, agent: str, grade: Grade | None, unreadable: str | None) -> dict[str, Any]:
        attempt = self._attempts[agent]
        return {
            "score": grade.score if grade else 0.0,
            "best_score": attempt.best,
            "correct": grade.correct if grade else False,
            "success": attempt.solved,
            "attempt": attempt.turns,
            "unreadable": unreadable,
            "difficulty": attempt.problem.difficulty,
            "problem": attempt.problem.identity,
            "problem_seed": attempt.seed,
            **attempt.problem.info,
            **(grade.info if grade else {}),
        }


def _range(value: int | Sequence[int] | None, known: tuple[int, int]) -> tuple[int, int]:
    ends: Any = known if value is None else value
    low, high = ends if isinstance(ends, Sequence) and len(ends) == 2 else (ends, ends)
    lowest = whole_number("difficulty", low, *known)
    return lowest, whole_number("difficulty", high, lowest, known[1])
