"""Mathematical problems with one correct answer, compared by exact arithmetic."""

from __future__ import annotations

import os

from mrlm.core.environment import EnvironmentMode
from mrlm.environments.task import ProblemEnvironment, ProblemGenerator

__all__ = ["MathProblemGenerator", "MathReasoningEnvironment"]


class MathProblemGenerator(ProblemGenerator):
    """Selection among arithmetic, algebra, word problems and multi-step problems."""


class MathReasoningEnvironment(ProblemEnvironment):
    """math_v0 of srl_envs.

    The reward of an attempt is the increase over the best score so far. Every attempt after the
    first has a small cost.

    Args:
        generator: Selection of generated problems.
        dataset: File of problems in the layout of GSM8K or MATH, instead of generated problems.
        max_attempts: Number of attempts per episode.
        mode: Must be CLIENT.

    Raises:
        EnvConfigError: An argument is not allowed, or the file does not exist.
    """

    def __init__(
        self,
        generator: MathProblemGenerator | None = None,
        dataset: str | os.PathLike[str] | None = None,
        max_attempts: int = 2,
        mode: EnvironmentMode | str = EnvironmentMode.CLIENT,
    ) -> None:
        super().__init__("math_v0", generator, dataset, mode, max_cycles=max_attempts)
