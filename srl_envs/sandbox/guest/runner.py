"""Runner: executes the program, makes the calls and reports, in the program's own process.

Nothing here is trusted by whoever reads the report. A program can write there what it likes: as
what its own calls returned, and no more than that. Only the standard library is imported here.
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
MESSAGE = 300  # characters of an exception's own words

NOTHING = b'{"source": "", "name": "solution", "asks": []}'
"""The request of an empty program, and what is reported of it."""
DONE = b"{}\n"


class CodeAttempt:
    """A `with` block whose failure, of whatever kind, is kept instead of raised."""

    failure: dict[str, str] | None = None

    def __enter__(self) -> CodeAttempt:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if kind is not None:
            self.failure = {"error": _words(kind, error, trace)}
            if issubclass(kind, MemoryError):
                self.failure["verdict"] = "memory"
        return True


def run(request: bytes) -> None:
    """Run one request: a program, and calls of what it defines, one by one as they come in."""
    asked = json.loads(request)
    sys.modules["random"].seed(0)  # so that the same program gives the same outputs
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
    if asked["asks"]:
        elsewhere = {name: Elsewhere(name) for name in asked["asks"]}
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
    """A function that runs in another process: called here with plain data, answered with it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the other process returned; raises RuntimeError where it failed."""
        sys.stdout.flush()
        _report({"call": serialization.dumps((self.name, args, kwargs)).decode("ascii")})
        line = bytearray()
        while not line.endswith(b"\n"):
            part = os.read(CALLS, 65536)
            if not part:
                raise RuntimeError("nobody answers")
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
        report["value"] = serialization.dumps(module.__dict__[name](*args, **kwargs)).decode(
            "ascii"
        )
    _report(calling.failure or report)


def _report(report: dict[str, str]) -> None:
    line = memoryview(json.dumps(report).encode("ascii") + b"\n")
    while line:
        line = line[os.write(RESULTS, line) :]


def _stream(descriptor: int) -> io.TextIOWrapper:
    raw = io.FileIO(descriptor, "w", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace")


def _words(kind: Any, error: Any, trace: Any) -> str:
    line = None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<program>":
            line = trace.tb_lineno
        trace = trace.tb_next
    said = ""
    with CodeAttempt():  # the program may have written its own __str__
        said = str(error)[:MESSAGE]
    where = f" (line {line})" if line is not None and not issubclass(kind, SyntaxError) else ""
    return f"{kind.__name__}: {said}{where}" if said else f"{kind.__name__}{where}"
