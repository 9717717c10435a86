"""Confinement of a run: readable files, namespaces, a separate root, resource limits, filters.

A run may read the standard library and its shared libraries. Other contents of the library's folder
(site-packages, dist-packages, packages installed there) are excluded: with this package, a program
could generate its hidden tests again.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Any

from srl_envs.sandbox.guest import kernel

WRITABLE, WORK = "/work", "/work/own"
"""Working folder of a run with namespaces, in memory, and its parent, which is not writable.

The parent exists for all runs, so that one Landlock rule for it also holds for each new folder.
"""
LIBRARY_INDEX = "/etc/ld.so.cache"  # index of shared libraries, which the loader reads
HOST = "sandbox"
RULES = 5  # descriptor of the Landlock ruleset, until it is applied
INSIDE = 1000  # user and group id within a user namespace
UNASSIGNED = 61184, 4300  # unassigned user ids: the first, and their number
OTHERS = kernel.NEW_MOUNT | kernel.NEW_NETWORK | kernel.NEW_IPC | kernel.NEW_UTS
NAMESPACES = "user, mount, process, network, ipc"


@dataclass
class Place:
    """Settings of a worker, and the protections that are active for its runs."""

    limits: dict[str, Any]
    """Fields of srl_envs.sandbox.Limits."""
    readable: list[str]
    """Files and folders of the standard library and its shared libraries."""
    folder: str
    """Empty folder, on which the new root is mounted."""
    filters: Mapping[str, bytes]
    """Name in seccomp.FILES -> compiled filter."""
    filter: bytes = b""
    """Active filter, empty for none."""
    namespaces: str = ""
    """Names of the active namespaces, empty for none."""
    landlock: int = 0
    """Active version of Landlock, 0 for none."""
    rules: int | None = None
    """Descriptor of the Landlock ruleset, None without Landlock."""
    switches_user: bool = False
    """True if each run changes to `user`."""
    own_processes: int | None = None
    """Descriptor of the process namespace of the worker, None without namespaces."""
    user: int = field(default_factory=lambda: UNASSIGNED[0] + os.getpid() % UNASSIGNED[1])
    """Unprivileged user id for the runs, if the worker's user is root."""

    def enter(self) -> None:
        """Enter new namespaces with a new root; raise OSError if the kernel refuses.

        Only a fork returns, as the first process of the new process namespace, with new values of
        `namespaces` and `own_processes`. The calling process waits for the fork's end and exits
        with status 0, or 1 if the fork failed.
        """
        processes = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
        if os.geteuid() == 0:
            # Root builds the root, because other users may be unable to read the interpreter.
            kernel.unshare(kernel.NEW_MOUNT)
            self._build_root()
            become(self.user)
            kernel.set_option(kernel.DUMPABLE)
            kernel.unshare(kernel.NEW_USER | OTHERS)
            _map_user(processes, self.user, self.user)
        else:
            user, group = os.geteuid(), os.getegid()
            kernel.unshare(kernel.NEW_USER | OTHERS)
            _map_user(processes, user, group)
            self._build_root()
        kernel.name_host(HOST)
        with contextlib.suppress(OSError):  # A second barrier: runs have no capabilities.
            _write("sys/user/max_user_namespaces", "0", processes)
        kernel.unshare(kernel.NEW_PID)
        first = os.fork()
        if first:
            # The fork is the worker now. When it ends, the kernel kills all its descendants.
            os.closerange(0, 2**16)
            _, status = os.waitpid(first, 0)
            os._exit(0 if status == 0 else 1)
        kernel.set_option(kernel.DEATH_SIGNAL, signal.SIGKILL)
        self.own_processes = os.open("self/ns/pid", os.O_RDONLY, dir_fd=processes)
        os.close(processes)
        self.namespaces = NAMESPACES

    def confine(self, descriptors: Sequence[int]) -> bytes:
        """Read and return the request; confine this fork irrevocably, or raise OSError.

        `descriptors` are those of the request, output, results and calls. The last three become 1
        (and 2), 3 and 4; all others except standard input are closed.
        """
        os.setsid()
        with os.fdopen(descriptors[0], "rb") as file:
            request = file.read()
        kept = [*descriptors[1:], *([] if self.rules is None else [self.rules])]
        high = [fcntl.fcntl(each, fcntl.F_DUPFD, 16) for each in kept]
        for target, descriptor in zip((1, 3, 4, RULES), high, strict=False):
            os.dup2(descriptor, target)
        os.dup2(1, 2)
        os.closerange(RULES + (self.rules is not None), 2**16)
        self.make_folder()
        self._limit()
        if self.switches_user:
            become(self.user)
        kernel.set_option(kernel.DEATH_SIGNAL, signal.SIGKILL)
        kernel.drop_capabilities()
        kernel.set_option(kernel.NO_NEW_PRIVILEGES)
        if self.rules is not None:
            kernel.restrict_files(RULES)
            os.close(RULES)
        for name in list(os.environ):
            del os.environ[name]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if self.filter and not self.namespaces:
            del os.uname  # The filter forbids it, and `platform` works without it.
        if self.filter:
            kernel.filter_calls(self.filter)
        return request

    def make_folder(self) -> None:
        """Enter a new, empty working folder WORK and IPC namespace, or raise OSError.

        Without `namespaces`, do nothing: the run stays in the worker's folder, which is deleted.
        """
        if not self.namespaces:
            return
        kernel.unshare(kernel.NEW_MOUNT | kernel.NEW_IPC)
        size = f"size={self.limits['disk']},nr_inodes={self.limits['files'] + 1},mode=700"
        flags = kernel.NO_SETUID | kernel.NO_DEVICES | kernel.NO_EXECUTION
        kernel.mount("tmpfs", WORK, "tmpfs", flags, size)
        os.chdir(WORK)

    def check_unprivileged_reading(self) -> None:
        """Become `user` irrevocably; raise OSError if one of `readable` cannot be opened."""
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
                last = allowed + 1  # SIGXCPU comes first, which identifies the reason.
            resource.setrlimit(kind, (allowed, last))

    def _build_root(self) -> None:
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
            # The kernel refuses to remove a flag of the original, so it is repeated.
            kept = os.statvfs(target).f_flag & kernel.NO_EXECUTION
            flags = kernel.REMOUNT | kernel.BIND | kernel.READ_ONLY | closed | kept
            kernel.mount("none", target, None, flags)
        flags = kernel.REMOUNT | kernel.BIND | kernel.READ_ONLY | closed
        kernel.mount("none", self.folder, None, flags)
        kernel.make_root(self.folder)


def become(user: int) -> None:
    """Change this process irrevocably to user and group id `user` alone, or raise OSError."""
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


def readable_files() -> list[str]:
    """Return sorted paths of the standard library and its shared libraries, without tkinter's."""
    library = []
    for place in sys.path:
        if os.path.isfile(place):  # a zipped library
            library.append(place)
        elif os.path.isdir(place):
            library += [os.path.join(place, n) for n in os.listdir(place) if _is_standard(n)]
    # tkinter is left out: a run has no display, and its libraries are many.
    extensions = [
        path
        for path in library
        if path.endswith(tuple(EXTENSION_SUFFIXES)) and os.path.basename(path)[:8] != "_tkinter"
    ]
    needed = [*_shared_libraries(extensions), LIBRARY_INDEX]
    return sorted({os.path.normpath(path) for path in library + needed if os.path.exists(path)})


def _is_standard(name: str) -> bool:
    module = name.partition(".")[0]
    built = module.startswith("_sysconfigdata_") or module == "__pycache__"
    return built or module in sys.stdlib_module_names


def _shared_libraries(extensions: list[str]) -> list[str]:
    def load(writer: int) -> None:
        for extension in extensions:
            with contextlib.suppress(OSError):  # A library of the extension is missing here.
                ctypes.CDLL(extension)
        with os.fdopen(writer, "wb") as file:
            file.write(b"\0".join(_loaded_libraries()))

    output = kernel.output_of_fork(load)
    if not output:
        raise OSError(0, "the shared libraries of the standard library could not be listed")
    return [os.fsdecode(name) for name in output.split(b"\0")]


class _Object(ctypes.Structure):
    """Beginning of `struct dl_phdr_info`; dl_iterate_phdr(3)."""

    _fields_ = (("address", ctypes.c_void_p), ("name", ctypes.c_char_p))


def _loaded_libraries() -> list[bytes]:
    names = []

    def note(found: ctypes._Pointer[_Object], _size: int, _data: int | None) -> int:
        name = found.contents.name
        # The interpreter has no name, and the object of the kernel has no path.
        if name and name.startswith(b"/"):
            names.append(name)
        return 0

    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Object), ctypes.c_size_t, ctypes.c_void_p)
    ctypes.CDLL(None).dl_iterate_phdr(kind(note), None)
    return names
