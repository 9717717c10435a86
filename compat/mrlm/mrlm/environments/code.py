"""Code: programs to write, run against tests in a sandbox."""

from __future__ import annotations

import os

from mrlm.core.environment import EnvironmentMode, frozen_only
from mrlm.environments.task import ProblemGenerator, TaskEnvironment, problems

__all__ = ["CodeExecutionEnvironment", "CodeProblemGenerator"]


class CodeProblemGenerator(ProblemGenerator):
    """Functions to write, from one expression to dynamic programming; see ProblemGenerator."""


class CodeExecutionEnvironment(TaskEnvironment):
    """code_v0 of srl_envs: problems of a generator, or of a file in HumanEval's or MBPP's layout.

    A program runs in a process apart, confined, and has `timeout` seconds for all its tests, some
    of which are not shown. Raises EnvConfigError for wrong arguments, and SandboxError where
    programs cannot be confined.
    """

    def __init__(
        self,
        generator: CodeProblemGenerator | None = None,
        dataset: str | os.PathLike[str] | None = None,
        timeout: float = 5.0,
        max_attempts: int = 3,
        mode: EnvironmentMode | str = EnvironmentMode.CLIENT,
    ) -> None:
        frozen_only(mode)
        options = {"max_cycles": max_attempts, "wall": timeout, **problems(generator, dataset)}
        super().__init__("code_v0", options)
