"""Confinement of a run: namespaces, a root of its own, limits, filters.

Only the standard library is imported here: this runs inside the sandbox's own interpreter.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from srl_envs.sandbox.guest import kernel

WRITABLE, WORK = "/work", "/work/own"
"""The working folder, where namespaces give it: in memory, and gone with the run. Its parent, which
nobody can write to, stays: rules for it are made once, and hold for what is mounted beneath."""
HOST = "sandbox"
RULES = 5  # the descriptor of Landlock's rules, until they are obeyed
INSIDE = 1000  # the user's and group's number within a user namespace
UNASSIGNED = 61184, 4300  # user numbers that belong to nobody; the first, and how many
OTHERS = kernel.NEW_MOUNT | kernel.NEW_NETWORK | kernel.NEW_IPC | kernel.NEW_UTS
NAMESPACES = "user, mount, process, network, ipc"


@dataclass
class Place:
    """What a worker was told and what it has set up, as far as its runs need it."""

    limits: dict[str, Any]
    readable: list[str]
    """Files and folders: the standard library's and the shared libraries, nothing else."""
    folder: str
    """An empty folder to build the new root on."""
    filters: Mapping[str, bytes]
    """Compiled seccomp filters, by what they leave of files (seccomp.FILES)."""
    filter: bytes = b""
    """The one of them that is in force, or nothing."""
    namespaces: str = ""
    landlock: int = 0
    rules: int | None = None
    """Landlock's rules, as a descriptor."""
    switches_user: bool = False
    """Whether each run changes to `user` by itself."""
    own_processes: int | None = None
    """An open file: the worker's own process namespace."""
    user: int = field(default_factory=lambda: UNASSIGNED[0] + os.getpid() % UNASSIGNED[1])

    def enter(self) -> None:
        """Go into namespaces, onto a root of our own; raises OSError where that is refused."""
        processes = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
        if os.geteuid() == 0:
            # Root builds, because the interpreter may lie where nobody else may look.
            kernel.unshare(kernel.NEW_MOUNT)
            self._build_root()
            become(self.user)
            kernel.set_dumpable(True)
            kernel.unshare(kernel.NEW_USER | OTHERS)
            _map_user(processes, self.user, self.user)
        else:
            user, group = os.geteuid(), os.getegid()
            kernel.unshare(kernel.NEW_USER | OTHERS)
            _map_user(processes, user, group)
            self._build_root()
        kernel.name_host(HOST)
        with contextlib.suppress(OSError):  # only a second lock: runs have no capabilities
            _write("sys/user/max_user_namespaces", "0", processes)
        kernel.unshare(kernel.NEW_PID)
        first = os.fork()
        if first:
            # From here on that one is the worker. When it ends, so does all that it ever started.
            os.closerange(0, 2**16)
            _, status = os.waitpid(first, 0)
            os._exit(0 if status == 0 else 1)
        kernel.die_with_parent()
        self.own_processes = os.open("self/ns/pid", os.O_RDONLY, dir_fd=processes)
        os.close(processes)
        self.namespaces = NAMESPACES

    def confine(self, descriptors: Sequence[int]) -> bytes:
        """Called in the fork: after it there is no way back. The request, as bytes."""
        os.setsid()
        with os.fdopen(descriptors[0], "rb") as file:
            request = file.read()
        kept = [*descriptors[1:], *([] if self.rules is None else [self.rules])]
        high = [fcntl.fcntl(each, fcntl.F_DUPFD, 16) for each in kept]
        for target, descriptor in zip((0, 1, 3, 4, RULES), high, strict=False):
            os.dup2(descriptor, target)
        os.dup2(1, 2)
        os.closerange(RULES + (self.rules is not None), 2**16)
        self.make_folder()
        self._limit()
        if self.switches_user:
            become(self.user)
        kernel.die_with_parent()
        kernel.drop_capabilities()
        kernel.forbid_new_privileges()
        if self.rules is not None:
            kernel.restrict_files(RULES)
            os.close(RULES)
        for name in list(os.environ):
            del os.environ[name]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if self.filter and not self.namespaces:
            del os.uname  # forbidden there; `platform` and what needs it can do without
        if self.filter:
            kernel.filter_calls(self.filter)
        return request

    def make_folder(self) -> None:
        """The run's own working folder and its own shared memory, where there are namespaces.

        Without them it stays where its worker is: in a folder that was removed, where nothing can
        be written.
        """
        if not self.namespaces:
            return
        kernel.unshare(kernel.NEW_MOUNT | kernel.NEW_IPC)
        size = f"size={self.limits['disk']},nr_inodes={self.limits['files'] + 1},mode=700"
        flags = kernel.NO_SETUID | kernel.NO_DEVICES | kernel.NO_EXECUTION
        kernel.mount("tmpfs", WORK, "tmpfs", flags, size)
        os.chdir(WORK)

    def make_rules(self) -> None:
        """Landlock's rules, made once for all runs."""
        if self.landlock:
            readable, writable = (["/"], [WRITABLE]) if self.namespaces else (self.readable, [])
            self.rules = kernel.file_rules(self.landlock, readable, writable)

    def read_as_nobody(self) -> None:
        """Whether another user than root can read what programs import; raises OSError if not."""
        become(self.user)
        for path in self.readable:
            os.close(os.open(path, os.O_RDONLY))

    def _limit(self) -> None:
        limits = self.limits
        for kind, value in (
            (resource.RLIMIT_AS, limits["memory"]),
            (resource.RLIMIT_CPU, limits["cpu"]),
            (resource.RLIMIT_FSIZE, limits["disk"] if self.namespaces else 0),
            (resource.RLIMIT_NOFILE, limits["files"]),
            (resource.RLIMIT_NPROC, 0),
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_MEMLOCK, 0),
            (resource.RLIMIT_MSGQUEUE, 0),
        ):
            _, highest = resource.getrlimit(kind)
            allowed = value if highest == resource.RLIM_INFINITY else min(value, highest)
            last = allowed
            if kind == resource.RLIMIT_CPU and allowed != highest:
                last = allowed + 1  # a signal of its own comes first, which says why it ended
            resource.setrlimit(kind, (allowed, last))

    def _build_root(self) -> None:
        """A file system of what is readable and an empty working folder; then live there."""
        kernel.mount("none", "/", None, kernel.RECURSIVE | kernel.PRIVATE)
        closed = kernel.NO_SETUID | kernel.NO_DEVICES
        kernel.mount("tmpfs", self.folder, "tmpfs", closed, "size=256k,mode=755")
        os.makedirs(self.folder + WORK)
        for path in self.readable:
            target = self.folder + path
            if os.path.isdir(path):
                os.makedirs(target, exist_ok=True)
            else:
                os.makedirs(os.path.dirname(target), exist_ok=True)
                os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
            kernel.mount(path, target, None, kernel.BIND | kernel.RECURSIVE)
            # A flag that the original has may not be taken off, so it is repeated.
            kept = os.statvfs(target).f_flag & kernel.NO_EXECUTION
            flags = kernel.REMOUNT | kernel.BIND | kernel.READ_ONLY | closed | kept
            kernel.mount("none", target, None, flags)
        flags = kernel.REMOUNT | kernel.BIND | kernel.READ_ONLY | closed
        kernel.mount("none", self.folder, None, flags)
        kernel.make_root(self.folder)


def become(user: int) -> None:
    """Be this user and group and no other, for good."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def _map_user(processes: int, user: int, group: int) -> None:
    _write("self/setgroups", "deny", processes)
    _write("self/uid_map", f"{INSIDE} {user} 1", processes)
    _write("self/gid_map", f"{INSIDE} {group} 1", processes)


def _write(path: str, text: str, folder: int) -> None:
    descriptor = os.open(path, os.O_WRONLY, dir_fd=folder)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
