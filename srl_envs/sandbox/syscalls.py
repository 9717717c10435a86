"""Which system calls a program in the sandbox may make: the allowed, compiled by libseccomp.

Everything else fails with "Operation not permitted": processes and threads, sockets (but for pairs
within the program), signals, other processes' memory, new namespaces, mounts, keys, bpf, io_uring,
shared memory segments and memory files, changes of owners and modes.
"""

from __future__ import annotations

import errno
import os
from importlib import import_module
from typing import Any

from srl_envs.sandbox.errors import SandboxError

INSTALL = 'pip install "core-srl[sandbox]" (and libseccomp, which most Linux systems have)'

_DESCRIPTORS = (
    "read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 close close_range "
    "lseek fstat fstatfs getdents getdents64 fchdir ftruncate fsync fdatasync fallocate fadvise64 "
    "flock umask sendfile copy_file_range dup dup2 dup3 pipe pipe2 poll ppoll select pselect6 "
    "epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd eventfd2 "
    "sendto recvfrom getsockopt setsockopt shutdown getsockname getpeername"
)
_PATHS = (
    "open openat openat2 creat stat lstat newfstatat fstatat64 statx statfs access faccessat "
    "faccessat2 getcwd chdir mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link "
    "linkat symlink symlinkat readlink readlinkat"
)
_MEMORY = "mmap munmap mprotect mremap madvise msync mincore brk"
_ITSELF = (
    "exit exit_group rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigsuspend "
    "rt_sigtimedwait sigaltstack pause alarm setitimer getitimer nanosleep clock_nanosleep "
    "clock_gettime clock_getres gettimeofday time times getpid getppid gettid getpgrp getpgid "
    "getsid getuid geteuid getgid getegid getresuid getresgid getgroups getrlimit getrusage uname "
    "sysinfo getcpu sched_getaffinity sched_yield getpriority futex futex_waitv getrandom "
    "arch_prctl set_tid_address set_robust_list get_robust_list rseq membarrier restart_syscall "
    "wait4 waitid capget"
)
# fcntl: all but owners and signals of descriptors, with which others could be signalled.
_FCNTL = (0, 1, 2, 3, 4, 5, 6, 7, 1030, 1032)
_IOCTL = (0x5401, 0x5413, 0x5421, 0x541B, 0x5450, 0x5451)  # is it a terminal, its size, blocking
_UNIX, _STREAM_AND_DATAGRAM = 1, (1, 2)
_SOCKET_TYPE = 0xF  # without the flags for closing and blocking


def compiled(paths: bool) -> bytes:
    """The filter for this machine, as the kernel takes it; without `paths`, no file can be opened.

    Raises ImportError, with the line that installs it, where libseccomp or its binding is missing.
    """
    try:
        pyseccomp = import_module("pyseccomp")
    except ImportError as error:
        raise ImportError(f"pyseccomp is missing: {INSTALL}") from error
    except RuntimeError as error:  # its word for a missing library
        raise ImportError(f"libseccomp is missing: {INSTALL}") from error
    allowed = pyseccomp.SyscallFilter(pyseccomp.ERRNO(errno.EPERM))
    names = f"{_DESCRIPTORS} {_MEMORY} {_ITSELF} {_PATHS if paths else ''}"
    for name in names.split():
        _allow(pyseccomp, allowed, name)
    for command in _FCNTL:
        _allow(pyseccomp, allowed, "fcntl", pyseccomp.Arg(1, pyseccomp.EQ, command))
    for request in _IOCTL:
        _allow(pyseccomp, allowed, "ioctl", pyseccomp.Arg(1, pyseccomp.EQ, request))
    for kind in _STREAM_AND_DATAGRAM:
        _allow(
            pyseccomp,
            allowed,
            "socketpair",
            pyseccomp.Arg(0, pyseccomp.EQ, _UNIX),
            pyseccomp.Arg(1, pyseccomp.MASKED_EQ, _SOCKET_TYPE, kind),
        )
    for name in ("prlimit64", "sched_getscheduler", "sched_getparam"):
        _allow(pyseccomp, allowed, name, pyseccomp.Arg(0, pyseccomp.EQ, 0))  # its own
    with open(os.memfd_create("filter"), "w+b") as file:
        allowed.export_bpf(file)
        file.seek(0)
        program = file.read()
    if not program or len(program) % 8:
        raise SandboxError(f"libseccomp compiled a filter of {len(program)} bytes")
    return program


def _allow(pyseccomp: Any, rules: Any, name: str, *conditions: Any) -> None:
    number = pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name)
    if number >= 0:  # others are unknown to this libseccomp or architecture, and stay forbidden
        rules.add_rule(pyseccomp.ALLOW, number, *conditions)
