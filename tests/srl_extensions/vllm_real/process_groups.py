"""Processes of a process group, from /proc."""

from pathlib import Path


def group(leader):
    """Return process id -> name of the running processes of a group."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = stat.read_text().split("(", 1)[1].rsplit(")", 1)
        except FileNotFoundError:  # The process has ended.
            continue
        state, _, own, *_ = rest.split()
        if int(own) == leader and state != "Z":
            found[int(stat.parent.name)] = name
    return found
