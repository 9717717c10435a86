"""Games from the same starts, played before training and after it: how many ended well, and one.

python -m benchmarks.training.real_model.same_starts BEFORE AFTER ... [--transcripts FILE]

The files are of `srl collect`, with equal seeds: of the configuration, and of a run of it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks import records
from benchmarks.training.real_model.__main__ import ended_well, indented
from srl_agents.episode import Episode, read_jsonl


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the games, print, keep."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.training.real_model.same_starts",
        description=(__doc__ or "").partition("\n")[0],
    )
    parser.add_argument("before", type=Path, help="games of the models as they began")
    parser.add_argument(
        "after", type=Path, nargs="+", help="of trained ones; one of the first's is shown"
    )
    parser.add_argument(
        "--transcripts", type=Path, metavar="FILE", help="also put the words into this file"
    )
    asked = parser.parse_args(arguments)
    before = list(read_jsonl(asked.before))
    after = {path.stem: list(read_jsonl(path)) for path in asked.after}
    counts = "\n".join(counted(name, before, games) for name, games in after.items())
    shown = f"{counts}\n\n{first_changed(before, next(iter(after.values())))}"
    print(shown)
    if asked.transcripts is not None:
        records.paste(asked.transcripts, f"same_starts_{before[0].environment}", shown)


def counted(name: str, before: Sequence[Episode], after: Sequence[Episode]) -> str:
    """How many of both ended well; raises ValueError for games of other starts."""
    if [game.seed for game in before] != [game.seed for game in after]:
        raise ValueError(f"{name}: the games have other starts: collect both with one --seed")
    well = [sum(map(ended_well, games)) for games in (before, after)]
    return (
        f"- `{name}`: of {len(before)} games {well[0]} ended well before training, {well[1]} after."
    )


def first_changed(before: Sequence[Episode], after: Sequence[Episode]) -> str:
    """The games of the first start from which only the later one ended well."""
    for number, (one, other) in enumerate(zip(before, after, strict=True), start=1):
        if ended_well(other) and not ended_well(one):
            return (
                f"Game {number}, the first that ended well after training alone. "
                f"Before:\n\n{indented(one)}\n\nAfter:\n\n{indented(other)}"
            )
    return "No game ended well after training alone."


if __name__ == "__main__":
    main()
