"""Seccomp filter of the system calls that a program may make, compiled by libseccomp.

All other calls fail with "Operation not permitted": processes and threads, sockets (except pairs
within the program, which cannot send to an address), signals, memory and clocks of other processes,
namespaces, mounts, keys, bpf, io_uring, shared memory segments and memory files, changes of owners,
modes and times.
"""

from __future__ import annotations

import errno
import functools
import os
from importlib import import_module
from typing import Any

from srl_envs.loading import needed_by
from srl_envs.sandbox.records import SandboxError

FILES = ("own", "readable", "none")
"""Permitted calls on files.

"own": all calls, for a run with a separate root.
"readable": opening for reading, and reading of metadata; the host name is hidden.
"none": no file can be opened.
"""

_DESCRIPTORS = (
    "read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 close close_range "
    "lseek fstat getdents getdents64 fchdir ftruncate fsync fdatasync fallocate fadvise64 "
    "umask sendfile copy_file_range dup dup2 dup3 pipe pipe2 poll ppoll select pselect6 "
    "epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd eventfd2 "
    "recvfrom getsockopt setsockopt shutdown getsockname getpeername"
)
_METADATA = "stat lstat newfstatat fstatat64 statx getcwd"
_PATHS = (
    "open openat openat2 creat access faccessat faccessat2 chdir mkdir mkdirat rmdir unlink "
    "unlinkat rename renameat renameat2 link linkat symlink symlinkat readlink readlinkat uname"
)
_MEMORY = "mmap munmap mprotect mremap madvise msync brk"
_THIS_PROCESS = (
    "exit exit_group rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigsuspend "
    "rt_sigtimedwait sigaltstack pause alarm setitimer getitimer nanosleep "
    "gettimeofday time times getpid getppid gettid getpgrp getuid geteuid getgid getegid getresuid "
    "getresgid getgroups getrlimit getrusage sysinfo getcpu sched_yield futex futex_waitv "
    "getrandom arch_prctl set_tid_address set_robust_list rseq membarrier restart_syscall wait4 "
    "waitid"
)
_BY_PROCESS_ID = "prlimit64 sched_getaffinity sched_getscheduler sched_getparam getpgid getsid"
_CLOCKS = "clock_gettime clock_getres clock_nanosleep"
_LAST_CLOCK = 15  # Higher numbers are the CPU clocks of other processes.
# Commands of fcntl, except owners and signals of descriptors, which could signal other processes.
_FCNTL = (0, 1, 2, 3, 4, 5, 6, 7, 1030, 1032)
_IOCTL = (0x5401, 0x5413, 0x5421, 0x541B, 0x5450, 0x5451)  # isatty, window size, blocking
_UNIX, _STREAM_AND_DATAGRAM = 1, (1, 2)
_SOCKET_TYPE = 0xF  # mask without the flags for closing and blocking
# Flags of open that write: read-write, creation, truncation, a file without a name. Landlock before
# version 3 permits the truncation of a file that is opened for reading.
_WRITING = os.O_ACCMODE | os.O_CREAT | os.O_TRUNC | (os.O_TMPFILE & ~os.O_DIRECTORY)


@functools.cache
def compiled(files: str) -> bytes:
    """Return the compiled filter, BPF bytes; `files` is "own", "readable" or "none" (see FILES).

    Raises ImportError with the install command if libseccomp or pyseccomp is missing, and
    SandboxError if libseccomp returned an invalid filter.
    """
    try:
        with needed_by("the filter of system calls"):
            pyseccomp = import_module("pyseccomp")
    except RuntimeError as error:  # pyseccomp raises it if libseccomp is missing.
        raise ImportError(
            "the filter of system calls needs libseccomp, which most Linux systems have: install "
            "the system's package (libseccomp2 or libseccomp)"
        ) from error
    argument, allowed = pyseccomp.Arg, pyseccomp.SyscallFilter(pyseccomp.ERRNO(errno.EPERM))
    on_files = {"own": f"{_METADATA} {_PATHS}", "readable": _METADATA, "none": ""}[files]

    def allow(names: str, *conditions: Any) -> None:
        for name in names.split():
            number = pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name)
            if number >= 0:  # A call that this architecture lacks stays forbidden.
                allowed.add_rule(pyseccomp.ALLOW, number, *conditions)

    allow(f"{_DESCRIPTORS} {_MEMORY} {_THIS_PROCESS} {on_files}")
    if files == "readable":
        for name, flags in (("open", 1), ("openat", 2)):
            allow(name, argument(flags, pyseccomp.MASKED_EQ, _WRITING, os.O_RDONLY))
    allow("sendto", argument(4, pyseccomp.EQ, 0))  # without an address
    for command in _FCNTL:
        allow("fcntl", argument(1, pyseccomp.EQ, command))
    for request in _IOCTL:
        allow("ioctl", argument(1, pyseccomp.EQ, request))
    for kind in _STREAM_AND_DATAGRAM:
        of_kind = argument(1, pyseccomp.MASKED_EQ, _SOCKET_TYPE, kind)
        allow("socketpair", argument(0, pyseccomp.EQ, _UNIX), of_kind)
    allow(_BY_PROCESS_ID, argument(0, pyseccomp.EQ, 0))  # this process only
    allow("getpriority", argument(1, pyseccomp.EQ, 0))
    allow(_CLOCKS, argument(0, pyseccomp.LE, _LAST_CLOCK))
    with open(os.memfd_create("filter"), "w+b") as file:
        allowed.export_bpf(file)
        file.seek(0)
        program = file.read()
    if not program or len(program) % 8:
        raise SandboxError(f"libseccomp compiled a filter of {len(program)} bytes")
    return program
