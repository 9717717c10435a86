"""Programming problems, checked by tests in a sandbox."""

from __future__ import annotations

import os

from mrlm.core.environment import EnvironmentMode
from mrlm.environments.task import ProblemEnvironment, ProblemGenerator

__all__ = ["CodeExecutionEnvironment", "CodeProblemGenerator"]


class CodeProblemGenerator(ProblemGenerator):
    """Selection among functions to write, from one expression to dynamic programming."""


class CodeExecutionEnvironment(ProblemEnvironment):
    """code_v0 of srl_envs: programs are run against shown and hidden tests in a sandbox.

    Args:
        generator: Selection of generated problems.
        dataset: File of problems in the layout of HumanEval or MBPP, instead of generated problems.
        timeout: Seconds for all tests of a program.
        max_attempts: Number of attempts per episode.
        mode: Must be CLIENT.

    Raises:
        EnvConfigError: An argument is not allowed, or the file does not exist.
        SandboxError: Programs cannot be confined on this machine.
    """

    def __init__(
        self,
        generator: CodeProblemGenerator | None = None,
        dataset: str | os.PathLike[str] | None = None,
        timeout: float = 5.0,
        max_attempts: int = 3,
        mode: EnvironmentMode | str = EnvironmentMode.CLIENT,
    ) -> None:
        limits = {"max_cycles": max_attempts, "wall": timeout}
        super().__init__("code_v0", generator, dataset, mode, **limits)
