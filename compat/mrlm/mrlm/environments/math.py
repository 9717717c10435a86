"""Mathematics: questions with one right answer, checked by exact arithmetic."""

from __future__ import annotations

import os

from mrlm.core.environment import EnvironmentMode, frozen_only
from mrlm.environments.task import ProblemGenerator, TaskEnvironment, problems

__all__ = ["MathProblemGenerator", "MathReasoningEnvironment"]


class MathProblemGenerator(ProblemGenerator):
    """Arithmetic, algebra, word problems and multi-step problems; see ProblemGenerator."""


class MathReasoningEnvironment(TaskEnvironment):
    """math_v0 of srl_envs: problems of a generator, or of a file in GSM8K's or MATH's layout.

    A turn earns what its score adds to the best so far; every turn after the first costs a little.
    Raises EnvConfigError for wrong arguments, such as a file that is not there.
    """

    def __init__(
        self,
        generator: MathProblemGenerator | None = None,
        dataset: str | os.PathLike[str] | None = None,
        max_attempts: int = 2,
        mode: EnvironmentMode | str = EnvironmentMode.CLIENT,
    ) -> None:
        frozen_only(mode)
        super().__init__("math_v0", {"max_cycles": max_attempts, **problems(generator, dataset)})
