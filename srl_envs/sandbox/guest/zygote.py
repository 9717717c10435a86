"""Zygote: the clean process of a worker, from which every run is forked.

It is a fresh interpreter, started by `python -s -S -P -B` with an empty environment. It never reads
a program or its inputs: only the fork reads their descriptors, so no run finds data of an earlier
run.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import struct
import time
from collections.abc import Callable
from importlib.machinery import PathFinder
from typing import Any

from srl_envs.sandbox.guest import confinement, kernel, runner

SETTINGS = 2**18  # largest size of the settings in bytes
REPLY = struct.Struct("=idi")  # wait status, CPU seconds, cause
ENDED, TIME_UP, STOPPED = 0, 1, 2
DESCRIPTORS = 4  # request, output, results, calls
SWEEP = 2.0  # seconds in which the descendants of a run must end

# Modules that programs often import: loaded once, instead of in every run.
PRELOADED = """
abc array base64 bisect calendar cmath collections copy csv dataclasses datetime decimal enum
fractions functools hashlib heapq io itertools json math numbers operator random re statistics
string struct textwrap time typing unicodedata
"""


def main(control_descriptor: int) -> None:
    """Read settings from a socket, activate and report protections, serve runs until it closes."""
    control = socket.socket(fileno=control_descriptor)
    settings: dict[str, Any] = json.loads(control.recv(SETTINGS))
    for name in PRELOADED.split():
        __import__(name)
    place = confinement.Place(
        limits=settings["limits"],
        readable=confinement.readable_files(),
        folder=settings["folder"],
        filters={what: bytes.fromhex(each) for what, each in settings["filters"].items()},
    )
    active = _set_up(place, set(settings["without"]))
    kernel.set_option(kernel.DUMPABLE, 0)
    kernel.set_option(kernel.ADOPT_ORPHANS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in the terminal is for the parent.
    gc.collect()
    gc.freeze()  # Forks share these objects; a collection would copy their memory.
    gc.disable()
    control.send(json.dumps(active).encode())
    _serve(control, place)


def _set_up(place: confinement.Place, without: set[str]) -> dict[str, Any]:
    """Activate the protections that work, except `without`; return the fields of Protections."""
    refused: dict[str, str] = {}
    if "landlock" not in without:
        place.landlock = kernel.landlock_version()
        refused["landlock"] = "" if place.landlock else "this kernel has none"
    if "namespaces" not in without:
        refused["namespaces"] = _attempted(lambda: _enter_and_fork(place))
        if not refused["namespaces"]:
            place.enter()
    if place.landlock:
        in_root = ["/"], [confinement.WRITABLE]
        readable, writable = in_root if place.namespaces else (place.readable, [])
        place.rules = kernel.file_rules(place.landlock, readable, writable)
    # The import system lists its folders now, because a run may be unable to list them.
    PathFinder.find_spec("no module has this name")
    if place.filters:
        # The names are those of seccomp.FILES.
        files = "own" if place.namespaces else "readable" if place.landlock else "none"
        chosen = place.filters[files]
        refused["seccomp"] = _attempted(lambda: kernel.filter_calls(chosen))
        place.filter = b"" if refused["seccomp"] else chosen
    if not place.namespaces:
        os.chdir(place.folder)
    if not place.namespaces and os.geteuid() == 0:
        refused["user of its own"] = _attempted(place.check_unprivileged_reading)
        place.switches_user = not refused["user of its own"]
    return {
        "namespaces": place.namespaces,
        "landlock": place.landlock,
        "seccomp": bool(place.filter),
        "refused": {name: reason for name, reason in refused.items() if reason},
    }


def _serve(control: socket.socket, place: confinement.Place) -> None:
    """Fork a run per message until `control` closes; reply with status, CPU time and cause."""
    own = place.own_processes
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 64, DESCRIPTORS)
        if not message:
            return
        if len(descriptors) != DESCRIPTORS:  # This stop request came after the end of its run.
            for descriptor in descriptors:
                os.close(descriptor)
            continue
        wall = struct.unpack("=d", message)[0]
        if own is not None:
            kernel.unshare(kernel.NEW_PID)
        child = os.fork()
        if child == 0:
            with kernel.leaving():
                request = place.confine(descriptors)
                runner.run(request)
        for descriptor in descriptors:
            os.close(descriptor)
        if own is not None:
            kernel.join(own, kernel.NEW_PID)
        cause = _watch(control, child, wall)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        _, status, used = os.wait4(child, 0)
        _sweep()
        cpu = used.ru_utime + used.ru_stime
        control.send(REPLY.pack(status, cpu, cause))


def _watch(control: socket.socket, child: int, wall: float) -> int:
    ended = os.pidfd_open(child)
    try:
        poll = select.poll()
        poll.register(ended, select.POLLIN)
        poll.register(control, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(wall * 1000)}
    finally:
        os.close(ended)
    if ended in ready:
        return ENDED
    if not ready:
        return TIME_UP
    control.recv(1)
    return STOPPED


def _sweep() -> None:
    own, until = os.getpid(), time.monotonic() + SWEEP
    while time.monotonic() < until:
        try:
            found, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if found == 0:
            for name in filter(str.isdigit, os.listdir("/proc")):
                with contextlib.suppress(OSError, IndexError):  # The process may have ended.
                    with open(f"/proc/{name}/stat", "rb") as file:
                        parent = int(file.read().rpartition(b")")[2].split()[1])
                    if parent == own:
                        os.kill(int(name), signal.SIGKILL)
            time.sleep(0.001)


def _attempted(step: Callable[[], None]) -> str:
    """Call `step` in a fork; return why it failed, otherwise ""."""

    def attempt(writer: int) -> None:
        try:
            step()
        except OSError as error:
            os.write(writer, (error.strerror or type(error).__name__).encode()[:200])
            raise
        os.write(writer, b"ok")

    output = kernel.output_of_fork(attempt).decode(errors="replace")
    return "" if output == "ok" else output or "it ended without a word"


def _enter_and_fork(place: confinement.Place) -> None:
    place.enter()
    kernel.unshare(kernel.NEW_PID)
    child = os.fork()
    if child == 0:
        with kernel.leaving():
            place.make_folder()
    assert place.own_processes is not None
    kernel.join(place.own_processes, kernel.NEW_PID)
    _, status = os.waitpid(child, 0)
    if status:
        raise OSError(0, "a run could not make its working folder")
