"""Processes of a group, as Linux tells them."""

from pathlib import Path


def group(leader):
    """Names of the processes of a group that have not ended."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = stat.read_text().split("(", 1)[1].rsplit(")", 1)
        except FileNotFoundError:  # it ended meanwhile
            continue
        state, _, own, *_ = rest.split()
        if int(own) == leader and state != "Z":
            found[int(stat.parent.name)] = name
    return found
