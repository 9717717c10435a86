import os
import pickle
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from srl_envs.errors import EnvConfigError
from srl_envs.sandbox import (
    LEVELS,
    Limits,
    Sandbox,
    SandboxCall,
    SandboxError,
    SandboxVerdict,
    Test,
)
from tests.srl_envs.sandbox.sandboxes import any_sandbox, children_of

OK, WRONG, ERROR = SandboxVerdict.OK, SandboxVerdict.WRONG, SandboxVerdict.ERROR
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def sandbox():
    # The CPU limit stops endless programs, so that others have time on a busy machine.
    with any_sandbox(Limits(wall=20.0, cpu=1)) as made:
        yield made


def test_calls_return_plain_data(sandbox):
    values = (None, True, 1, 1.5, "é\ud800", b"\x00", [1, (2,)], {(1, 2): {3}}, frozenset({4}))
    run = sandbox.run("def f(x): return x", [SandboxCall("f", (v,)) for v in values])
    assert run.verdict is OK
    assert [(type(o.value), o.value) for o in run.outcomes] == [(type(v), v) for v in values]


@pytest.mark.parametrize(
    ("body", "expected", "verdict"),
    [
        ("return x + 1", 2, OK),
        ("return x", 2, WRONG),
        ("return 2.0", 2, WRONG),
        ("return x == 1", 1, WRONG),
        ("return {True: 2}", {1: 2}, WRONG),
        ("return {'a': [x]}", {"a": [1]}, OK),
        ("return float('nan')", float("nan"), OK),
        ("return 7 ** 4000", 7**4000, OK),
        ("return 7 ** 9000", 1, ERROR),
        ("return object()", 1, ERROR),
        ("raise ValueError('no')", 1, ERROR),
        ("import collections; return collections.Counter('aab')", {"a": 2, "b": 1}, OK),
    ],
)
def test_verdicts_of_calls(sandbox, body, expected, verdict):
    report = sandbox.check(f"def f(x): {body}", [Test(SandboxCall("f", (1,)), expected)])
    assert report.verdicts == (verdict,)
    assert report.all_passed is (verdict is OK)


@pytest.mark.parametrize(
    ("source", "verdict", "words"),
    [
        ("def f(:", SandboxVerdict.SYNTAX, "SyntaxError"),
        ("1 / 0", ERROR, "ZeroDivisionError: division by zero (line 1)"),
        ("while True: pass", SandboxVerdict.TIMEOUT, "computing"),
        ("x = bytearray(2**40)", SandboxVerdict.MEMORY, "MemoryError"),
        ("while True: print('x' * 1000)", SandboxVerdict.OUTPUT, "output"),
        (
            "import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass",
            SandboxVerdict.TIMEOUT,
            "computing",
        ),
        ("import os; os._exit(3)", SandboxVerdict.KILLED, "ended"),
        ("import ctypes; ctypes.string_at(0)", SandboxVerdict.KILLED, "SIGSEGV"),
    ],
)
def test_verdicts_of_programs(sandbox, source, verdict, words):
    run = sandbox.run(source, [SandboxCall("f", (1,)), SandboxCall("f", (2,))])
    assert run.verdict is verdict and words in run.error
    assert [outcome.verdict for outcome in run.outcomes] == [verdict, SandboxVerdict.NOT_RUN]


def test_wall_time_is_limited():
    with any_sandbox(Limits(wall=0.5)) as sandbox:
        run = sandbox.evaluate("import time\ntime.sleep(60)")
    assert run.verdict is SandboxVerdict.TIMEOUT and run.error == "its time was up"


def test_evaluate_returns_stdout(sandbox):
    run = sandbox.evaluate("import sys\nprint(sum(map(int, '1 2 3'.split())), __name__, end='')")
    assert (run.verdict, run.stdout) == (OK, "6 __main__")
    assert sandbox.evaluate("print(repr(__import__('sys').stdin.read()))").stdout == "''\n"
    run = sandbox.evaluate("import sys\nsys.stderr.write('\\x1b[2J')\nprint('é')\n1/0")
    assert "\x1b" not in run.stdout and "é" in run.stdout
    assert run.verdict is ERROR and run.error.endswith("(line 4)")


def test_runs_are_isolated_and_deterministic(sandbox):
    sandbox.run("import builtins, math\nbuiltins.len = math.pi = 3\nx = 1")
    source = (
        "import math, random\n"
        "def f(): return [len('ab'), math.pi, random.random(), 'x' in globals(), list({'a', 'b'})]"
    )
    first, second = (sandbox.run(source, [SandboxCall("f")]).outcomes[0].value for _ in range(2))
    assert first == second and first[0] == 2 and first[1] > 3.1 and first[3] is False


def test_judge_runs_code_tests_in_another_process(sandbox):
    trial = "assert f(2) == 4\nimport math\nassert math.isclose(f(0.5), 0.25)"
    assert sandbox.judge("def f(x): return x * x", trial, ["f"]).verdict is OK
    run = sandbox.judge("def f(x): return x", trial, ["f"])
    assert run.verdict is WRONG and run.error == "AssertionError (line 1)"
    assert sandbox.judge("def f(x): return 1 / 0", trial, ["f"]).error.startswith("ZeroDivision")
    assert sandbox.judge("def f(", trial, ["f"]).verdict is SandboxVerdict.SYNTAX


@pytest.mark.parametrize(
    "program",
    [
        "class E:\n    def __eq__(self, o): return True\ndef f(x): return E()",
        "class E(int):\n    def __eq__(self, o): return True\ndef f(x): return E(5)",
        "import builtins\nbuiltins.AssertionError = KeyError\ndef f(x): return 5",
        "import os\nos.write(3, b'{}\\n{}\\n{}\\n')\ndef f(x): return 5",
        'import os\nos.write(3, b\'{}\\n{"value": "4", "verdict": 1}\\n\')\ndef f(x): return 5',
        "import os\ndef f(x): os._exit(0)",
        "import sys\ndef f(x):\n    sys.exit(0)",
    ],
)
def test_programs_cannot_forge_the_verdict_of_judge(sandbox, program):
    assert sandbox.judge(program, "assert f(2) == 4", ["f"]).verdict is not OK


def test_a_lost_worker_is_replaced(sandbox):
    run = sandbox.run("def f(): return 1", [SandboxCall("f")])
    assert run.verdict is OK
    started = children_of(os.getpid())
    workers = [p for p in started if b"srl_envs.sandbox" in Path(f"/proc/{p}/cmdline").read_bytes()]
    every = workers + [inner for worker in workers for inner in children_of(worker)]
    for worker in workers:
        os.killpg(worker, signal.SIGKILL)
    assert workers
    until = time.monotonic() + 30
    while any(_alive(str(process)) for process in every):  # The kernel ends them later.
        assert time.monotonic() < until
        time.sleep(0.01)
    assert sandbox.run("def f(): return 1", [SandboxCall("f")]).verdict is OK


def test_threads_can_share_a_sandbox(sandbox):
    def squares(x):
        return sandbox.check(
            "def f(x): return x * x", [Test(SandboxCall("f", (x,)), x * x)]
        ).all_passed

    def judged(x):
        return int(
            sandbox.judge("def f(x): return x", f"assert f({x}) == {x}", ["f"]).verdict is OK
        )

    with ThreadPoolExecutor(4) as threads:
        every = [*threads.map(squares, range(8)), *threads.map(judged, range(3))]
    assert sum(every) == 11


def test_protections_are_reported_and_the_minimum_is_enforced():
    with any_sandbox() as sandbox:
        active = sandbox.protections()
        assert active.level in LEVELS and str(active).startswith(f"level {active.level}")
    with pytest.raises(SandboxError, match=r"reaches level limits.*Wanted is level filtered"):
        Sandbox(without=("seccomp",))
    with pytest.raises(EnvConfigError, match="workers"):
        Sandbox(workers=1)
    with pytest.raises(EnvConfigError, match="minimum must be one of"):
        Sandbox(minimum="none")


KERNEL = """
import errno, sys
import pyseccomp
from srl_envs.sandbox import Sandbox, SandboxError

rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
for each in sys.argv[1].split():
    rules.add_rule(pyseccomp.ERRNO(errno.EPERM), each)
rules.load()
for minimum in sys.argv[2:]:
    try:
        with Sandbox(minimum=minimum) as sandbox:
            print(sandbox.protections(), sandbox.evaluate("print(6 * 7)").stdout)
    except SandboxError as error:
        print("refused:", error)
"""


@pytest.mark.parametrize(
    ("refused", "minima", "said"),
    [
        ("unshare", ["filtered", "strict"],
         ["level filtered", "no namespaces: ", "42", "refused: the sandbox reaches"]),
        ("mount landlock_create_ruleset", ["filtered"],
         ["no landlock", "no namespaces: ", "42"]),
        ("pidfd_open", ["limits"], ["refused: an empty program could not be run: "]),
    ],
)  # fmt: skip
def test_refusals_of_the_kernel_are_reported(refused, minima, said):
    """If a container forbids these calls, the level is weaker or the start fails, without delay."""
    pytest.importorskip("pyseccomp")
    try:
        Sandbox(without=("namespaces", "landlock")).close()
    except SandboxError as error:
        pytest.skip(f"this machine has no filter of system calls to begin with: {error}")
    ran = subprocess.run(
        [sys.executable, "-c", KERNEL, refused, *minima], capture_output=True, text=True, cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)}, timeout=60,
    )  # fmt: skip
    assert not [words for words in said if words not in ran.stdout], ran


def test_sandbox_can_be_pickled_and_closed():
    with any_sandbox() as sandbox:
        again = pickle.loads(pickle.dumps(sandbox))
    with again:
        assert again.run("").verdict is OK
    with pytest.raises(SandboxError, match="closed"):
        sandbox.run("")


def test_workers_end_with_the_owning_process():
    script = (
        "from tests.srl_envs.sandbox.sandboxes import any_sandbox, children_of\nimport os\n"
        "sandbox = any_sandbox()\nsandbox.run('')\n"
        "print(*children_of(os.getpid()), flush=True)\n"
        "sandbox.run('while True: pass')"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    with owner:
        workers = owner.stdout.readline().split()
        owner.kill()
    assert workers
    until = time.monotonic() + 30
    while any(Path("/proc", w, "cmdline").exists() and _alive(w) for w in workers):
        assert time.monotonic() < until, "a worker outlives its owner"
        time.sleep(0.02)


def _alive(pid):
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
