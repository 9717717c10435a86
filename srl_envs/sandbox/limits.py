"""Resource limits of one run."""

from __future__ import annotations

from dataclasses import dataclass

from srl_envs.validation import number_between, whole_number

MIB = 2**20


@dataclass(frozen=True)
class Limits:
    """Resource limits of one run. It may never start a process or a thread."""

    wall: float = 5.0
    """Seconds from start to end."""
    cpu: int = 4
    """Seconds of computing."""
    memory: int = 256 * MIB
    """Bytes of address space, the interpreter's own few tens of MiB included."""
    disk: int = 8 * MIB
    """Bytes of all files in the working folder; nothing can be written without namespaces."""
    files: int = 64
    """Files in the working folder; also files open at once."""
    output: int = 64 * 1024
    """Bytes of standard output and standard error together."""
    results: int = 256 * 1024
    """Bytes of what one call returned, as plain data."""

    def __post_init__(self) -> None:
        number_between("wall", self.wall, 0.01)
        whole_number("cpu", self.cpu, 1)
        whole_number("memory", self.memory, 64 * MIB)
        whole_number("disk", self.disk, 4096)
        whole_number("files", self.files, 16)
        whole_number("output", self.output, 0)
        whole_number("results", self.results, 1024)
