"""Tasks: graded questions as an environment of one or several agents.

    class Reverse(Task):
        name = "reverse_v0"

        def rules(self):
            return "You are given a word. Write it backwards."

        def draw(self, rng, difficulty):
            word = "".join(rng.choice(list("abcdefg"), size=2 + difficulty))
            return Problem(question=word, answer=word[::-1])

        def grade(self, problem, answer):
            return Grade.right() if answer == problem.answer else Grade.wrong("That is not it.")

    env = TaskEnv(Reverse())

is a whole environment: seeded, with training and test problems, for one agent or several, and
readable by language models. docs/environments/tasks.md tells all that a task may say.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from srl_envs.errors import EnvConfigError, EnvError
from srl_envs.games.base import metadata_of
from srl_envs.games.maze_levels import SPLITS
from srl_envs.tasks.free_text_game import (
    RENDER_MODES,
    FreeTextGame,
    FreeTextView,
    Outcome,
    readable_text,
)
from srl_envs.tasks.grading import final_answer
from srl_envs.tasks.problem import Attempt, Grade, Problem
from srl_envs.text import TEXT_LENGTH, ParseFailure, Samples
from srl_envs.validation import (
    MOST_PLAYERS,
    check_choice,
    number_between,
    true_or_false,
    whole_number,
)

__all__ = ["Attempt", "Grade", "Problem", "Task", "TaskEnv", "TaskView", "final_answer"]

DRAWS = 10_000  # problems that may be drawn in vain before we say that there is none
HOW_TO_ANSWER = "End with a line that holds your final answer alone: Answer: ..."


class Task(ABC):
    """Questions and their grading. Subclass it: `draw`, `grade` and `rules` are enough.

    A task holds no state of an episode (that is in Attempt), so that one object may serve many
    environments.
    """

    name: ClassVar[str]
    """The environment's, such as "math_v0"."""
    difficulties: tuple[int, int] = (1, 5)
    """The easiest and the hardest that `draw` knows."""
    attempts: int = 3
    """Turns, where the environment is not told otherwise."""
    split: str = "train"
    """The split that is played where the environment is not told otherwise."""
    attempt_penalty: float = 0.05
    """Taken off for every turn after the first, where the environment is not told otherwise."""

    @abstractmethod
    def rules(self) -> str:
        """Instructions, given once, before everything."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, difficulty: int) -> Problem:
        """A problem, all of whose randomness is from `rng`."""

    @abstractmethod
    def grade(self, problem: Problem, answer: str) -> Grade:
        """The grade of an answer, as `read` gave it. It must not raise, whatever the text."""

    def how_to_answer(self) -> str:
        """The form of an answer, said after the rules."""
        return HOW_TO_ANSWER

    def read(self, text: str) -> str | ParseFailure:
        """The answer in what an agent wrote. Never raises."""
        return final_answer(text)

    def begin(self, problem: Problem) -> Any:
        """The task's memory for one attempt: files, an interpreter, or nothing."""
        return None

    def respond(self, attempt: Attempt, answer: str) -> Grade:
        """One turn, for tasks in which a turn is more than an attempt; it may change `memory`."""
        return self.grade(attempt.problem, answer)

    def end(self, attempt: Attempt) -> None:
        """Let go of what `begin` holds; called once for each attempt, finished or broken off."""
        attempt.memory = None

    def question(self, attempt: Attempt) -> str:
        """What is asked, on every turn; tasks of many turns add what has happened so far."""
        return attempt.problem.question

    def sample_answers(self, rng: np.random.Generator, attempt: Attempt, count: int) -> Samples:
        """Up to `count` texts that say nothing about the truth; None where the task has none."""
        return None


class TaskEnv(FreeTextGame):
    """A task as an environment: each agent works on a problem of its own.

    Agents agent_0, agent_1, ...; an action is the whole text that an agent writes. A turn earns
    what its score adds to the agent's best so far, less `attempt_penalty` for every turn after the
    first: an answer that is repeated earns nothing, and an episode's return is the best score
    less the penalties. An agent is done (terminated) when its task is solved or its `max_cycles`
    turns are used up. What cannot be read uses up a turn.

    Observation: the coming turn / (turns + 1), last score, best score, solved (0 or 1). Infos:
    `score` and `correct` (of this turn), `best_score`, `success` (so far), `attempt`, `unreadable`
    (why the text was not read, or None), `difficulty`, `problem` (its identity), `problem_seed`,
    and the problem's own.

    `difficulty` is one number or (easiest, hardest), by default all that the task knows; `split`
    is "train", "test" or "any". `problem_seed` makes every episode ask the same problem, and
    `reset(options={"problem_seed": k})` names it for one episode. With `same_problem` all agents
    get the same. Raises EnvConfigError for arguments out of range.
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
        self.difficulty = _range("difficulty", difficulty, task.difficulties)
        self.split: str = check_choice(
            "split", task.split if split is None else split, (*SPLITS, "any")
        )
        self.same_problem = true_or_false("same_problem", same_problem)
        self.problem_seed = problem_seed
        self.attempt_penalty = number_between(
            "attempt_penalty",
            task.attempt_penalty if attempt_penalty is None else attempt_penalty,
            0.0,
            1.0,
        )
        self._attempts: dict[str, Attempt] = {}
        self._seeds: dict[str, int] = {}
        self._open: set[str] = set()
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
            self.problem(problem_seed)  # says so where there is none

    def problem(self, seed: int) -> Problem:
        """The problem of a problem seed, in this environment's split and range of difficulty.

        Raises EnvConfigError where none of the split is found.
        """
        rng = np.random.default_rng(whole_number("problem_seed", seed, low=0))
        easiest, hardest = self.difficulty
        for _ in range(DRAWS):
            drawn = self.task.draw(rng, int(rng.integers(easiest, hardest + 1)))
            if self.split in ("any", drawn.split):
                return drawn
        raise EnvConfigError(
            f"{self.task.name} has no problem of the {self.split} split among {DRAWS} drawn of "
            f"difficulty {easiest} to {hardest}: give another difficulty, or split='any'"
        )

    def attempt(self, agent: str) -> Attempt:
        """An agent's attempt in this episode; the truth is in it, so show it to no agent."""
        if agent not in self._attempts:
            raise EnvError(
                f"{agent!r} has no attempt: call reset() first, for {self.possible_agents}"
            )
        return self._attempts[agent]

    def sample_answers(self, agent: str, rng: np.random.Generator, count: int) -> Samples:
        """The task's `sample_answers` for the agent's problem."""
        return self.task.sample_answers(rng, self.attempt(agent), count)

    # What FreeTextGame asks of a game.

    def make_view(self) -> TaskView:
        """The view for episodes of `self.max_cycles` turns."""
        turns = self.max_cycles
        tries = "" if turns == 1 else f" You have {turns} attempts."
        return TaskView(f"{self.task.rules()} {self.task.how_to_answer()}{tries}", task=self.task)

    def begin(self, options: Mapping[str, Any]) -> None:
        """Draw every agent's problem."""
        named = options.get("problem_seed", self.problem_seed)
        if named is not None:
            named = whole_number("problem_seed", named, low=0)
        agents = len(self.possible_agents)
        seeds = self.np_random.integers(2**32, size=agents).tolist()
        if self.same_problem:
            seeds = seeds[:1] * agents
        if named is not None:
            seeds = [named] * agents
        problems = [self.problem(seed) for seed in seeds]  # may be refused: nothing is let go yet
        self._let_go(self._open.copy())
        self._seeds = dict(zip(self.possible_agents, seeds, strict=True))
        self._attempts = dict(zip(self.possible_agents, map(Attempt, problems), strict=True))
        for agent, attempt in self._attempts.items():
            attempt.memory = self.task.begin(attempt.problem)
            self._open.add(agent)

    def first_info(self, agent: str) -> dict[str, Any]:
        """The info of an agent that has not answered."""
        return self._info(agent, None, None)

    def take(self, answers: Mapping[str, str], over: bool) -> dict[str, Outcome]:
        """Read and grade one text per agent."""
        return {agent: self._answered(agent, text, over) for agent, text in answers.items()}

    def prompt(self, agent: str) -> str:
        """The question, and after the first turn which attempt it is and what was wrong."""
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
        """The coming turn / (turns + 1), last score, best score, solved."""
        attempt = self._attempts[agent]
        last = attempt.grades[-1].score if attempt.grades else 0.0
        return (attempt.turns + 1) / (self.rounds + 1), last, attempt.best, float(attempt.solved)

    def close(self) -> None:
        """Let go of what the task holds for attempts that were broken off."""
        self._let_go(self._open.copy())

    def _answered(self, agent: str, text: str, over: bool) -> Outcome:
        attempt, task = self._attempts[agent], self.task
        attempt.turns += 1
        reward = 0.0 if attempt.turns == 1 else -self.attempt_penalty
        whole = readable_text(text)
        answer = whole if isinstance(whole, ParseFailure) else task.read(whole)
        finished = over
        if isinstance(answer, ParseFailure):
            # Nothing at all stands for an answer whose writer was told already why it was not read.
            attempt.feedback = f"Not read: {answer.reason}." if text else ""
            info = self._info(agent, None, answer.reason)
        else:
            grade = task.respond(attempt, answer)
            attempt.answers.append(answer)
            attempt.grades.append(grade)
            attempt.feedback = grade.feedback
            attempt.solved = attempt.solved or grade.correct
            reward += max(0.0, grade.score - attempt.best)
            attempt.best = max(attempt.best, grade.score)
            finished = over or (grade.correct if grade.finished is None else grade.finished)
            info = self._info(agent, grade, None)
        if finished:
            self._let_go({agent})
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
            "problem_seed": self._seeds[agent],
            **attempt.problem.info,
            **(grade.info if grade else {}),
        }

    def _let_go(self, agents: set[str]) -> None:
        for agent in agents:
            self._open.discard(agent)
            self.task.end(self._attempts[agent])


@dataclass(frozen=True)
class TaskView(FreeTextView):
    """Text view of a task."""

    task: Task = field(kw_only=True)

    def parse(self, agent: str, answer: str) -> str | ParseFailure:
        """The whole text, or why no answer could be read in it. Never raises."""
        text = readable_text(answer)
        read = text if isinstance(text, ParseFailure) else self.task.read(text)
        return read if isinstance(read, ParseFailure) else text


def _range(name: str, value: int | Sequence[int] | None, known: tuple[int, int]) -> tuple[int, int]:
    low, high = known
    if value is None:
        return known
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2:
        easiest = whole_number(name, value[0], low, high)
        return easiest, whole_number(name, value[1], easiest, high)
    number = whole_number(name, value, low, high)
    return number, number
