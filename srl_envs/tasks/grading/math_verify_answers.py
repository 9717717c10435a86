"""Comparison of answers by math-verify, for figures comparable with published ones."""

from __future__ import annotations

import threading

from srl_envs.errors import EnvError
from srl_envs.loading.extras import needed_by

SECONDS = 5  # for reading an answer, and again for comparing two: math-verify's own limits


def same_answer(truth: str, said: str) -> bool:
    """Whether math-verify takes an answer for the truth; what it cannot read in time is wrong.

    It is no judge to train on. Of the 263 pairs in tests/srl_envs/tasks/grading it takes 19 of the
    121 wrong ones for right ("x < 1 and x > 3" for "x < 1 or x > 3", "10 cm" for "10 inches",
    "42±0" for "42") and 51 of the 142 right ones for wrong ("2 1/3" for "7/3", "42 dollars" for
    "42"), and it is slower by orders of magnitude.

    Raises ImportError, with the line that installs it, where it is missing, and EnvError outside
    the main thread, which alone gets the signals by which it keeps its time.
    """
    with needed_by("grader='math_verify'"):
        from math_verify import parse, verify
    if threading.current_thread() is not threading.main_thread():
        raise EnvError(
            "grader='math_verify' got a thread that gets no signals, by which it keeps its time: "
            "play in the main thread, or use grader='exact'"
        )
    right, answer = (parse(f"\\boxed{{{text}}}", parsing_timeout=SECONDS) for text in (truth, said))
    return bool(verify(right, answer, timeout_seconds=SECONDS))
