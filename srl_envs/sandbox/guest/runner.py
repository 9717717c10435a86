"""Runner: executes a program and its calls, and reports the results, in the program's process.

The reader of the report does not trust it: a program can write anything to the descriptor, but it
can forge nothing except the results of its calls.
"""

from __future__ import annotations

import builtins
import gc
import io
import json
import os
import sys
import types
from typing import Any

from srl_envs.sandbox.guest import serialization

RESULTS, CALLS = 3, 4  # descriptors
MESSAGE = 300  # characters of the message of an exception

NOTHING, DONE = b'{"source": "", "name": "solution", "elsewhere": []}', b"{}\n"
"""Request of an empty program, and its complete report."""


class CodeAttempt:
    """Context manager that keeps any exception as `failure` instead of raising it."""

    failure: dict[str, str] | None = None
    """{"error": description}, for a MemoryError also "verdict"; None without an exception."""

    def __enter__(self) -> CodeAttempt:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if kind is not None:
            self.failure = {"error": _described(kind, error, trace)}
            if issubclass(kind, MemoryError):
                self.failure["verdict"] = "memory"
        return True


def run(request: bytes) -> None:
    """Run the program of a request, then the calls from descriptor CALLS until its end.

    A request is JSON: {"source", "name", "elsewhere"}, the last a list of functions that another
    process answers. Set the standard streams, `sys.argv` and the seed of `random`. Write a line
    of JSON to descriptor RESULTS for the program and each call: the result, or the exception. If
    the program raises one, no call is read.
    """
    asked = json.loads(request)
    sys.modules["random"].seed(0)  # The same program has the same output in every run.
    sys.stdin = io.TextIOWrapper(io.FileIO(0, "r"), encoding="utf-8", errors="replace")
    sys.stdout = _stream(1)
    sys.stderr = _stream(2)
    module = types.ModuleType(asked["name"])
    module.__dict__["__builtins__"] = builtins
    sys.modules[asked["name"]] = module
    sys.argv = [asked["name"]]
    gc.enable()
    code: Any = None
    with CodeAttempt() as compiling:
        code = compile(asked["source"], "<program>", "exec", dont_inherit=True)
    if compiling.failure:
        compiling.failure.setdefault("verdict", "syntax")
        _report(compiling.failure)
        return
    if asked["elsewhere"]:
        elsewhere = {name: Elsewhere(name) for name in asked["elsewhere"]}
        module.__dict__.update(elsewhere, elsewhere=elsewhere)
    with CodeAttempt() as loading:
        exec(code, module.__dict__)
    _report(loading.failure or {})
    if loading.failure is None:
        with os.fdopen(CALLS, "rb") as calls:
            for line in calls:
                _answer(module, line)
    with CodeAttempt():
        sys.stdout.flush()
        sys.stderr.flush()


class Elsewhere:
    """Function of another process, called over RESULTS and CALLS with plain data."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result; NotPlainError if arguments are not plain, RuntimeError on failure."""
        sys.stdout.flush()
        _report({"call": serialization.dumps((self.name, args, kwargs)).decode("ascii")})
        line = bytearray()
        while not line.endswith(b"\n"):
            part = os.read(CALLS, 65536)
            if not part:
                raise RuntimeError("the supervising process does not answer")
            line += part
        answer = json.loads(line)
        if "value" not in answer:
            raise RuntimeError(answer.get("error", "the call failed"))
        return serialization.loads(answer["value"].encode("ascii"))


def _answer(module: types.ModuleType, call: bytes) -> None:
    report: dict[str, str] = {}
    with CodeAttempt() as calling:
        name, args, kwargs = serialization.loads(call)
        if name not in module.__dict__:
            raise NameError(f"name {name!r} is not defined")
        value = module.__dict__[name](*args, **kwargs)
        report["value"] = serialization.dumps(value).decode("ascii")
    _report(calling.failure or report)


def _report(report: dict[str, str]) -> None:
    line = memoryview(json.dumps(report).encode("ascii") + b"\n")
    while line:
        line = line[os.write(RESULTS, line) :]


def _stream(descriptor: int) -> io.TextIOWrapper:
    raw = io.FileIO(descriptor, "w", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace")


def _described(kind: Any, error: Any, trace: Any) -> str:
    line = None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<program>":
            line = trace.tb_lineno
        trace = trace.tb_next
    message = ""
    with CodeAttempt():  # The program may define __str__ of the exception.
        message = str(error)[:MESSAGE]
    place = f" (line {line})" if line is not None and not issubclass(kind, SyntaxError) else ""
    return f"{kind.__name__}: {message}{place}" if message else f"{kind.__name__}{place}"
