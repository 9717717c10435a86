"""Every report of a run, also a forged one, results in a verdict."""

import base64
import random
import sys

import pytest

from srl_envs.sandbox import Limits, NotPlainError, SandboxCall, SandboxVerdict, Test
from srl_envs.sandbox.guest import serialization
from srl_envs.untrusted import MAX_DIGITS
from tests.srl_envs.sandbox.sandboxes import any_sandbox


@pytest.fixture(scope="module")
def sandbox():
    with any_sandbox(Limits(wall=10.0, cpu=2)) as made:
        yield made


def test_integers_have_a_limit_in_both_directions():
    line = b"-" + b"9" * MAX_DIGITS
    assert serialization.dumps(serialization.loads(line)) == line
    with pytest.raises(NotPlainError, match="more than 4300 digits"):
        serialization.dumps(10**MAX_DIGITS)
    limit = sys.get_int_max_str_digits()
    try:
        sys.set_int_max_str_digits(0)  # Users may do so.
        for value in (b"9" * (MAX_DIGITS + 1), b"[" + b"9" * 9000 + b"]"):
            with pytest.raises(NotPlainError):
                serialization.loads(value)
    finally:
        sys.set_int_max_str_digits(limit)


FORGED = """
import os
def f(x):
    os.write(3, b'{"value": "VALUE"}\\n')
    os._exit(0)
"""


@pytest.mark.parametrize("digits", [4300, 50_000])
def test_forged_integers_do_not_pass(sandbox, digits):
    forged = FORGED.replace("VALUE", "9" * digits)
    assert sandbox.judge(forged, "assert f(2) == 4", ["f"]).verdict is not SandboxVerdict.OK
    report = sandbox.check(forged, [Test(SandboxCall("f", (2,)), 4)])
    assert SandboxVerdict.OK not in report.verdicts and repr(report.run.outcomes[0].value)


PIECES = [
    *(b'{"value": "', b'"}', b'{"error": "', b'", "verdict": "', b"error", b"syntax", b"memory"),
    *(
        b"[",
        b"]",
        b"{",
        b"}",
        b'{\\"d\\": [',
        b'{\\"t\\": [',
        b'{\\"b\\": \\"',
        b"\\ud800",
        b"null",
    ),
    *(b"9" * 4200, b"1e999", b"NaN", b"-Infinity", b"\xff", b"\x00", b"\n", b"\n", b"{}", b"{}\n"),
    *(b'{"call": "', b"[" * 300, b"true", b",", b"0", b'"', b"\\", b"\\u202e", b"\x1b[2J"),
]


NOISE = """
import base64, os
NOISE = base64.b64decode('WHAT')
if WHEN == 0: os.write(3, NOISE)
def f(x):
    if WHEN == 1: os.write(3, NOISE)
    if WHEN == 2:
        os.write(3, NOISE)
        os._exit(0)
    return 1
"""


def test_random_reports_never_raise_or_pass(sandbox):
    rng = random.Random(0)
    for number in range(15):
        noise = b"".join(rng.choices(PIECES, k=rng.randrange(1, 9)))
        source = NOISE.replace("WHAT", base64.b64encode(noise).decode())
        source = source.replace("WHEN", str(number % 3))
        judged = sandbox.judge(source, "assert f(2) == 'never'", ["f"])
        assert judged.verdict is not SandboxVerdict.OK
        report = sandbox.check(source, [Test(SandboxCall("f", (n,)), "never") for n in range(2)])
        assert SandboxVerdict.OK not in report.verdicts and len(report.verdicts) == 2


LOOKING = """
import gc, os, sys
def f(x):
    found, frame = [], sys._getframe()
    while frame:
        found += [str(each) for each in frame.f_locals.values() if isinstance(each, (bytes, str))]
        found += [str(frame.f_locals.get('asked'))]
        frame = frame.f_back
    for each in gc.get_objects():
        if isinstance(each, (list, tuple, dict)):
            inner = each.values() if isinstance(each, dict) else each
            found += [str(part) for part in inner if isinstance(part, (bytes, str))]
    os.set_blocking(4, False)
    try: found.append(repr(os.read(4, 10000)))
    except BlockingIOError: pass
    os.set_blocking(4, True)
    return [word[::-1] in ''.join(found) for word in ('tsrif', 'dnoces', 'driht')]
"""


def test_program_cannot_read_later_calls(sandbox):
    tests = [Test(SandboxCall("f", (word,)), "expected") for word in ("first", "second", "third")]
    outcomes = sandbox.check(LOOKING, tests).run.outcomes
    assert outcomes[0].value == [True, False, False]
    assert outcomes[1].value[1:] == [True, False]


def test_error_of_a_program_is_one_line(sandbox):
    source = "def f():\n    raise type('E\\nAll tests pass', (Exception,), {})('x\\n\\u2028y')"
    [outcome] = sandbox.run(source, [SandboxCall("f")]).outcomes
    assert len(outcome.error.splitlines()) == 1 and "All tests pass" in outcome.error
