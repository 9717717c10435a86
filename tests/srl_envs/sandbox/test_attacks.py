"""All attacks in all modes of the sandbox: they fail, end in time, and leave no trace."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import sysconfig
import time
from pathlib import Path

import pytest

from srl_envs.sandbox import Limits, Sandbox, SandboxCall, SandboxError, SandboxVerdict, Test
from tests.srl_envs.sandbox.attacks import ATTACKS, KINDS

WALL, CPU = 0.3, 1  # seconds that an attack gets; an honest run gets more
LATE = 15.0  # seconds: no attack may hold its caller longer, even on a busy machine
MODES = {
    "all": (),
    "without Landlock": ("landlock",),
    "without namespaces": ("namespaces",),
    "without namespaces and Landlock": ("namespaces", "landlock"),
    "without the filter": ("seccomp",),
}
SLOW = ("without Landlock", "without namespaces", "without the filter")
LEFT_BY_NAMESPACES = {
    "asks how full the disk is",
    "locks the library",
    "leaves a key",
    "talks to the machine's host",
    "fills memory files",
    "listens",  # The network namespace is empty.
    "opens a netlink socket",
}
"""Attacks that only the filter prevents."""
SHARED = [Path(each) for each in ("/tmp", "/var/tmp", "/dev/shm", "/run", "/", "/work")]


class Surroundings:
    """Targets of attacks outside the sandbox, with checks that they are unharmed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.secret, self.marker, self.token, self.expected = (
            f"{word}-{secrets.token_hex(8)}" for word in ("secret", "marker", "token", "expected")
        )
        self.secret_file, self.target = folder / "secret.txt", folder / "target"
        self.signals: list[int] = []
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", 0))
        self.abstract = socket.socket(socket.AF_UNIX)
        self.abstract.bind("\0" + self.token)
        self.abstract.listen()
        self.datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.datagrams.bind(str(folder.with_suffix(".socket")))
        self.named = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.named.bind(f"\0{self.token}-datagrams")
        self.all = (self.tcp, self.udp, self.abstract, self.datagrams, self.named)
        for each in self.all:
            each.setblocking(False)

    def prepare(self) -> None:
        for path in self.folder.iterdir():
            path.chmod(0o777)
            path.rmdir() if path.is_dir() else path.unlink()
        self.secret_file.write_text(self.secret)
        self.folder.chmod(0o777)
        self.secret_file.chmod(0o666)
        os.utime(self.secret_file, (1e9, 1e9))
        self.signals.clear()

    def filled_in(self, source: str) -> str:
        for mark, value in {
            "SECRET": self.secret_file,
            "TARGET": self.target,
            "PARENT": os.getpid(),
            "GROUP": os.getpgrp(),
            "USER": os.getuid(),
            "PORT": self.tcp.getsockname()[1],
            "UDP": self.udp.getsockname()[1],
            "DATAGRAMS": self.datagrams.getsockname(),
            "ABSTRACT": self.token,
            "TOKEN": self.token,
            "MARKER": self.marker,
            "HOME": Path.home(),
            "HOST": socket.gethostname(),
            "PROJECT": Path(__file__).parents[3],
            "SITE": sysconfig.get_path("purelib"),
        }.items():
            source = source.replace(f"SRL_ATTACK_{mark}", "KEPT").replace(mark, str(value))
            source = source.replace("KEPT", f"SRL_ATTACK_{mark}")
        return source

    def check_unharmed(self, said: str) -> None:
        for loot in (self.secret, self.marker, self.expected, "root:x:0:0", "PATH="):
            assert loot not in said
        assert [path.name for path in self.folder.iterdir()] == ["secret.txt"]
        assert self.secret_file.read_text() == self.secret
        assert self.secret_file.stat().st_mtime == 1e9
        assert self.secret_file.stat().st_mode & 0o777 == 0o666
        assert self.signals == []
        for listening in (self.tcp, self.abstract):
            with pytest.raises(BlockingIOError):
                listening.accept()
        for waiting in (self.udp, self.datagrams, self.named):
            with pytest.raises(BlockingIOError):
                waiting.recv(10)
        for folder in (*SHARED, Path.home(), Path.cwd()):
            if folder.is_dir():
                assert not [name for name in os.listdir(folder) if self.token in name]

    def close(self) -> None:
        for each in self.all:
            each.close()


def processes(known: set[int]) -> set[int]:
    """Return the ids of the descendants of this process, except known ones."""
    parents: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            parents[int(name)] = int(
                Path("/proc", name, "stat").read_text().rpartition(")")[2].split()[1]
            )
        except (OSError, IndexError):
            continue
    mine, grown = {os.getpid()}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in mine} - mine
        grown = bool(more)
        mine |= more
    return mine - {os.getpid()} - known


@pytest.fixture(scope="module")
def surroundings(tmp_path_factory):
    made = Surroundings(tmp_path_factory.mktemp("outside"))
    before = signal.signal(signal.SIGUSR1, lambda number, _: made.signals.append(number))
    os.environ["SRL_ATTACK_SECRET"] = made.secret
    yield made
    del os.environ["SRL_ATTACK_SECRET"]
    signal.signal(signal.SIGUSR1, before)
    made.close()


@pytest.fixture(
    scope="module",
    params=[pytest.param(mode, marks=pytest.mark.slow if mode in SLOW else ()) for mode in MODES],
)
def sandbox(request):
    """Return a sandbox of the mode, and the ids of its processes."""
    limits = Limits(wall=5.0, cpu=CPU, memory=128 * 2**20)
    without = MODES[request.param]
    minimum = "limits" if "seccomp" in without else "filtered"
    try:
        made = Sandbox(limits, without=without, minimum=minimum)
    except SandboxError as refusal:
        # The kernel grants too few protections, so no program runs.
        assert "Wanted is level filtered" in str(refusal)
        yield None, set()
        return
    with made:
        assert made.check("def f(x): return x", [Test(SandboxCall("f", (1,)), 1)]).all_passed
        object.__setattr__(limits, "wall", WALL)  # read at the start of every run
        yield made, processes(set())


@pytest.mark.parametrize(("kind", "name"), ATTACKS, ids=[name for _, name in ATTACKS])
def test_attack_fails_in_time_and_leaves_no_trace(sandbox, surroundings, kind, name):
    sandbox, before = sandbox
    if sandbox is None:
        return  # The mode is not available; see the fixture.
    active = sandbox.protections()
    if not active.seccomp and (not active.namespaces or name in LEFT_BY_NAMESPACES):
        return
    surroundings.prepare()
    source = surroundings.filled_in(KINDS[kind][name])

    started = time.monotonic()
    report = sandbox.check(source, [Test(SandboxCall("f", (1,)), surroundings.expected)])
    taken = time.monotonic() - started

    run = report.run
    assert SandboxVerdict.OK not in report.verdicts
    assert taken < LATE, f"blocked its caller for {taken:.1f} s"
    assert all(isinstance(verdict, SandboxVerdict) for verdict in report.verdicts)
    assert len(run.stdout) <= sandbox.limits.output and len(run.error) <= 400
    said = f"{run.stdout} {run.error} {[(o.value, o.error) for o in run.outcomes]!r}"
    surroundings.check_unharmed(said)
    assert "\x1b" not in run.stdout + run.error + run.outcomes[0].error
    honest = sandbox.check(
        "def f(x): return x", [Test(SandboxCall("f", ("still here",)), "still here")]
    )
    assert honest.all_passed, f"the sandbox is spoilt: {honest}"
    deadline = time.monotonic() + 10.0
    while (left := processes(before)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not left, f"processes remain: {left}"
