"""Changes between two documents: what a page that shows the one needs to show the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Change = tuple[list[str | int], int | None, Any]
"""(path of keys and places, how many entries of the list there stay, what follows them); with None
for a number, the value that takes the place of the one at the path."""


def changes(old: Any, new: Any) -> list[Change]:
    """What makes `new` of `old`; both as JSON has them. Lists are cut and appended to."""
    return list(_changes(old, new, []))


def _changes(old: Any, new: Any, path: list[str | int]) -> Iterator[Change]:
    if old is new or old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        for key in new:
            yield from _changes(old[key], new[key], [*path, key])
    elif isinstance(old, list) and isinstance(new, list):
        shared = min(len(old), len(new))
        for place in range(shared):
            one, other = old[place], new[place]
            if isinstance(one, (dict, list)) and type(one) is type(other):
                yield from _changes(one, other, [*path, place])
            elif one != other:
                shared = place
                break
        if shared < len(old) or shared < len(new):
            yield path, shared, new[shared:]
    else:
        yield path, None, new
