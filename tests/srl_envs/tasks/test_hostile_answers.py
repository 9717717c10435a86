"""Random texts in every free-text environment: no exception, and valid spaces and infos."""

import json

import numpy as np
import pytest

from srl_envs import make
from srl_envs.text import TEXT_LENGTH, TextEnv
from tests.srl_envs.sandbox.sandboxes import any_sandbox
from tests.srl_envs.tasks.grading.hostile_answers import PIECES

JOINTS = ("", " ", "\n")
NUMBERS = ("Answer: 4", "Answer:", "\\boxed{\\frac{1}{0}}", "x < 3 or", "sqrt(-1)", "9**9**9",
           "1e999", "(", "{x | x > 2}", "3, 3", "½", "\\text{ inches}")  # fmt: skip
CALLS = (
    '<tool_call>{"name": "calculator", "arguments": {"expression": "1+1"}}</tool_call>',
    '<tool_call>{"name": "read_file", "arguments": {"path": "../../etc/passwd"}}</tool_call>',
    '<tool_call>{"name": "write_file", "arguments": {"path": "a", "content": ""}}</tool_call>',
    '[{"name": "search", "arguments": {"query": "town"}}]', "<tool_call>", "Answer: 1",
)  # fmt: skip
PROGRAMS = (
    "```python", "```", "def ", "f(x):", "    return x", "return", "(", ")", '"""', "lambda *a: a",
    "import os\nos._exit(0)", "raise SystemExit", "print('x' * 10**6)", "\0", "    1 / 0", "del f",
    "class f: pass", "f = f", "yield", "exec('f = 1')", "# coding: latin-1", "\ud800", "x" * 3000,
)  # fmt: skip
SUMS = {"name": "math_v0", "options": {"families": "arithmetic"}}
TOOLS = {"name": "tool_use_v0", "options": {"families": "read"}}
ENVIRONMENTS = {
    "math_v0": ({}, NUMBERS, 300),
    "tool_use_v0": ({}, CALLS, 300),
    "multitask_v0": ({"environments": {"sums": SUMS, "tools": TOOLS}}, NUMBERS + CALLS, 300),
    "debate_v0": ({"debate_rounds": 9}, ("pro", "Because.", "For example, 3."), 300),
    "code_v0": ({}, PROGRAMS, 60),
}


def hostile_text(rng, words):
    """Return up to seven pieces or words in any order, sometimes with random characters."""
    pieces = (*words, *PIECES)
    chosen = [pieces[place] for place in rng.integers(len(pieces), size=rng.integers(8))]
    if rng.random() < 0.1:
        chosen.append("".join(map(chr, rng.integers(1, 0x3000, size=20))))
    return JOINTS[rng.integers(3)].join(chosen)[:16_000]


@pytest.mark.parametrize("many", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_hostile_answers_never_raise(name, many):
    options, words, few = ENVIRONMENTS[name]
    if name == "code_v0":
        with any_sandbox() as sandbox:
            options = {"sandbox_minimum": sandbox.protections().level}
    env, rng = TextEnv(make(name, max_cycles=20, **options)), np.random.default_rng(0)
    said = episode = 0
    while said < (5000 if many else few):
        env.reset(seed=episode)
        episode += 1
        while env.agents:
            answers = {agent: hostile_text(rng, words) for agent in env.agents}
            seen, rewards, _, _, infos = env.step(answers)
            said += len(answers)
            assert all(-1.2 <= reward <= 1.0 for reward in rewards.values())
            assert all(len(text) <= TEXT_LENGTH and text.encode() for text in seen.values())
            json.dumps(infos)
    env.close()
