"""Linux system calls that Python's standard library does not offer.

Constants are those of the kernel (see the manual pages in the docstrings). Failures raise OSError.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import traceback
from collections.abc import Callable, Iterator, Sequence

NEW_MOUNT, NEW_UTS, NEW_IPC = 0x00020000, 0x04000000, 0x08000000
NEW_USER, NEW_PID, NEW_NETWORK = 0x10000000, 0x20000000, 0x40000000

READ_ONLY, NO_SETUID, NO_DEVICES, NO_EXECUTION = 1, 2, 4, 8
REMOUNT, BIND, RECURSIVE, PRIVATE = 32, 4096, 16384, 1 << 18
DETACH = 2

DEATH_SIGNAL = 1  # signal to this process when its parent ends
DUMPABLE = 4  # 1 if processes of the same user may inspect this process
ADOPT_ORPHANS = 36  # 1 to become the parent of all descendants whose parents end
NO_NEW_PRIVILEGES = 38  # 1 to gain no privileges by starting a program, also for descendants
_SET_SECCOMP, _DROP_BOUNDING = 22, 24
_CAPABILITY_VERSION, _LAST_CAPABILITY = 0x20080522, 63
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture

# Landlock's rights on files, by the version of its interface that introduced them.
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
_EXECUTE, _READ_FILE, _READ_FOLDER = 1 << 0, 1 << 2, 1 << 3
_NETWORK_VERSION, _NETWORK_RIGHTS = 4, 3  # TCP: bind, connect
_SCOPE_VERSION, _SCOPES = 6, 3  # abstract sockets and signals to processes outside

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _done(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{os.strerror(number)} ({what})")
    return result


def _call(number: int, *arguments: int | bytes | None) -> int:
    typed = [ctypes.c_long(part) if isinstance(part, int) else part for part in arguments]
    return int(_libc.syscall(ctypes.c_long(number), *typed))


def set_option(option: int, value: int = 1) -> None:
    """Set an option of this process, or raise OSError.

    `option` is DEATH_SIGNAL (then `value` is a signal), DUMPABLE, ADOPT_ORPHANS or
    NO_NEW_PRIVILEGES.
    """
    zero = ctypes.c_ulong(0)
    _done(_libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero), f"prctl {option}")


def unshare(namespaces: int) -> None:
    """Move this process to new namespaces, or raise OSError.

    `namespaces` is the sum of NEW_ constants. NEW_PID applies to later children only.
    """
    _done(_libc.unshare(namespaces), "unshare")


def join(namespace: int, kind: int) -> None:
    """Enter the namespace of a descriptor, or raise OSError; `kind` is its NEW_ constant."""
    _done(_libc.setns(namespace, kind), "setns")


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    """Mount `source` at `target`, or raise OSError.

    `kind` is the file system, or None for a change or a copy of an existing mount. `flags` is a
    sum of constants (READ_ONLY to PRIVATE). `options` of the file system are separated by commas.
    """
    given = options.encode() or None
    kind_given = kind.encode() if kind else None
    result = _libc.mount(source.encode(), target.encode(), kind_given, ctypes.c_ulong(flags), given)
    _done(result, f"mount {target}")


def make_root(folder: str) -> None:
    """Replace the root by the mount point `folder` and enter it, or raise OSError."""
    os.chdir(folder)
    _done(_libc.pivot_root(b".", b"."), "pivot_root")
    _done(_libc.umount2(b".", DETACH), "umount2")
    os.chdir("/")


def drop_capabilities() -> None:
    """Drop all capabilities, irrevocably if NO_NEW_PRIVILEGES is set, or raise OSError."""
    for capability in range(_LAST_CAPABILITY + 1):
        # Errors are ignored: with NO_NEW_PRIVILEGES, no capability can be gained.
        _libc.prctl(_DROP_BOUNDING, ctypes.c_ulong(capability), *[ctypes.c_ulong(0)] * 3)
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    _done(_libc.capset(header, struct.pack("=6I", *[0] * 6)), "capset")


def filter_calls(program: bytes) -> None:
    """Apply NO_NEW_PRIVILEGES and a compiled seccomp filter irrevocably, or raise OSError."""
    set_option(NO_NEW_PRIVILEGES)  # The kernel requires it.
    kept = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(kept))
    pointer = ctypes.create_string_buffer(header, len(header))
    zero = ctypes.c_ulong(0)
    result = _libc.prctl(
        _SET_SECCOMP, ctypes.c_ulong(2), ctypes.c_ulong(ctypes.addressof(pointer)), zero, zero
    )
    _done(result, "seccomp")


def landlock_version() -> int:
    """Return the version of the kernel's Landlock interface, 0 for none; landlock(7)."""
    return max(0, _call(_CREATE_RULESET, None, 0, 1))


def name_host(name: str) -> None:
    """Set the host name and the domain name to `name`, or raise OSError."""
    for call in (_libc.sethostname, _libc.setdomainname):
        _done(call(name.encode(), ctypes.c_size_t(len(name))), "sethostname")


def file_rules(version: int, readable: Sequence[str], writable: Sequence[str]) -> int:
    """Create a Landlock ruleset for `restrict_files` and return its descriptor, or raise OSError.

    The ruleset permits reading of `readable` (files, or folders with their contents), and in the
    folders `writable` all but execution and creation of devices, sockets and named pipes. A file in
    `writable` may only be read. From version 4 of the interface, the ruleset also forbids TCP, and
    from 6 signals and abstract sockets to processes outside. `version` is at most the kernel's.
    """
    rights = sum(bits for since, bits in _FILE_RIGHTS.items() if since <= version)
    network = _NETWORK_RIGHTS if version >= _NETWORK_VERSION else 0
    scopes = _SCOPES if version >= _SCOPE_VERSION else 0
    size = 24 if scopes else 16 if network else 8
    handled = struct.pack("=QQQ", rights, network, scopes)[:size]
    rules = _done(_call(_CREATE_RULESET, handled, size, 0), "landlock_create_ruleset")
    special = 1 << 6 | 1 << 9 | 1 << 10 | 1 << 11  # creation of devices, sockets and named pipes
    reading = _READ_FILE | _READ_FOLDER
    for paths, allowed in ((readable, reading), (writable, rights & ~special & ~_EXECUTE)):
        for path in paths:
            beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
            rule = struct.pack("=Qi", allowed if os.path.isdir(path) else _READ_FILE, beneath)
            _done(_call(_ADD_RULE, rules, 1, rule, 0), f"landlock_add_rule {path}")
            os.close(beneath)
    return rules


def restrict_files(rules: int) -> None:
    """Apply a Landlock ruleset irrevocably, or raise OSError; landlock_restrict_self(2)."""
    _done(_call(_RESTRICT_SELF, rules, 0), "landlock_restrict_self")


@contextlib.contextmanager
def leaving() -> Iterator[None]:
    """Context that ends this forked process: with status 0, or 1 after printing an exception."""
    code = 1
    try:
        yield
        code = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode(errors="replace"))
        raise
    finally:
        os._exit(code)


def output_of_fork(step: Callable[[int], None]) -> bytes:
    """Call `step(descriptor)` in a fork; return all bytes that it wrote, even if it fails."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with leaving():
            step(writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        output = file.read()
    os.waitpid(child, 0)
    return output
