"""Mathematical problems with one correct answer, compared by exact arithmetic."""

from __future__ import annotations

from typing import ClassVar

from mrlm.environments.task import ProblemEnvironment, ProblemGenerator

__all__ = ["MathProblemGenerator", "MathReasoningEnvironment"]


class MathProblemGenerator(ProblemGenerator):
    """Selection among arithmetic, algebra, word and multi-step problems; see ProblemGenerator."""


class MathReasoningEnvironment(ProblemEnvironment):
    """math_v0 of srl_envs: several attempts at a problem, with more reward for fewer attempts.

    Arguments are those of ProblemEnvironment. Files of the option `path` have the layout of GSM8K
    or MATH.
    """

    registered: ClassVar[str] = "math_v0"
