"""Programming problems, checked by tests in a sandbox."""

from __future__ import annotations

from typing import ClassVar

from mrlm.environments.task import ProblemEnvironment, ProblemGenerator

__all__ = ["CodeExecutionEnvironment", "CodeProblemGenerator"]


class CodeProblemGenerator(ProblemGenerator):
    """Selection among generated functions to write; see ProblemGenerator."""


class CodeExecutionEnvironment(ProblemEnvironment):
    """code_v0 of srl_envs: programs are run against shown and hidden tests in a sandbox.

    Arguments are those of ProblemEnvironment. Files of the option `path` have the layout of
    HumanEval. Raises SandboxError if programs cannot be confined on this machine.
    """

    registered: ClassVar[str] = "code_v0"
