"""Table of the real model's runs, and transcripts of a game from the first and the last round.

python -m benchmarks.training.real_model RUN ... [--docs FILE] [--transcripts FILE]

Exit code 1 if the reward did not rise by more than its 95 % interval in every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import records
from benchmarks.records import Check
from srl_agents.episode import Episode
from srl_envs.untrusted import printable
from srl_train.metrics import headline, run_folder
from srl_train.metrics.run_folder import Run, sample_label
from srl_train.metrics.transcript import transcript, view_of

INTERVAL = 1.96
"""Standard errors on each side, in which 95 % of a normal distribution lie."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the runs, print, keep."""
    parser = records.parser(__doc__)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="a finished run's folder")
    parser.add_argument(
        "--transcripts", type=Path, metavar="FILE", help="also put the transcripts into this file"
    )
    asked = parser.parse_args(arguments)
    runs = [run_folder.load(folder) for folder in asked.runs]
    rows = [row_of(run) for run in runs]
    checks = [
        Check(
            f"{row['environment']}, seed {row['seed']}: the reward rises by more than its interval",
            row["rose"] > row["interval"],
            f"{row['rose']:+.3f} ± {row['interval']:.3f}",
        )
        for row in rows
    ]
    code = records.keep("real_model", {"rows": rows}, markdown(rows), asked, checks)
    by_environment: dict[str, list[Run]] = {}
    for run in runs:
        by_environment.setdefault(run.environment, []).append(run)
    shown = "\n\n".join(
        f"`{name}`, seed {own[0].seed}:\n\n{before_and_after(own)}"
        for name, own in by_environment.items()
    )
    print(f"\n{shown}")
    if asked.transcripts is not None:
        records.paste(asked.transcripts, "real_model_transcripts", shown)
    return code


def row_of(run: Run) -> dict[str, Any]:
    """The run's numbers by name; raises KeyError for a run that has not ended."""
    told = run.summary["evaluation"]
    found = headline.change(told["before"], told["after"], {}, run.mode)
    return {
        "environment": run.environment,
        "seed": run.seed,
        "before": found.before,
        "after": found.after,
        "rose": found.after - found.before,
        "interval": INTERVAL * found.error,
        "success": [told[when]["success"] for when in ("before", "after")],
        "games": told["after"]["episodes"],
        "rounds": len(run.rows),
        "seconds": run.summary["seconds"],
    }


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """The table of the rows, and what it shows."""
    headers = ["environment", "seed", "reward before", "after", "rose by (95 %)", "success",
               "rounds", "training, s"]  # fmt: skip
    lines = [
        [row["environment"], row["seed"], f"{row['before']:.3f}", f"{row['after']:.3f}",
         f"{row['rose']:+.3f} ± {row['interval']:.3f}", _shares(row["success"]),
         row["rounds"], f"{row['seconds']:.0f}"]
        for row in rows
    ]  # fmt: skip
    games = ", ".join(
        f"{row['games']} in {row['environment']}"
        for row in {row["environment"]: row for row in rows}.values()
    )
    return (
        f"{records.table(headers, lines)}\n\n"
        "Raw reward per agent and turn in games that nobody learns from, the same before and "
        f"after ({games}); intervals as if they were independent. LoRA adapters of rank 8 on "
        "the last six layers of Gemma 3 270M (4-bit GGUF, dequantized to bfloat16), on one "
        "thread of a machine of two cores that others used as well."
    )


def before_and_after(runs: Sequence[Run]) -> str:
    """The first sample game of the first run's first round, which was played before any update, and
    of its last; where neither ended well, also the first of all their sample games that did."""
    first = runs[0]
    games = [
        (f"{sample_label(sample.path).capitalize()}:", sample.episodes[0])
        for sample in (first.samples[0], first.samples[-1])
    ]
    if not any(ended_well(episode) for _, episode in games):
        kept = [(r, sample, e) for r in runs for sample in r.samples for e in sample.episodes]
        well = [one for one in kept if ended_well(one[-1])]
        for run, sample, episode in well[:1]:
            label = sample_label(sample.path).capitalize()
            told = f"{label} of seed {run.seed}, the first of the {len(well)} among {len(kept)} "
            games.append((f"{told}sample games that ended well:", episode))
    return "\n\n".join(f"{told}\n\n{indented(episode)}" for told, episode in games)


def ended_well(episode: Episode) -> bool:
    """Whether somebody came to a success or a deal."""
    ends = [episode.end_of(agent) for agent in episode.seats]
    return any(end.get("success") or end.get("outcome") == "agreement" for end in ends)


def indented(episode: Episode) -> str:
    """What was said and paid in a game of the catalogue's, as a block of Markdown."""
    made = episode.made_as
    view = None if made is None else view_of(episode, made["name"], made["options"])
    shown = transcript(episode, view)
    lines = []
    for turn in shown.turns:
        for step in turn.steps:
            if step.asked:
                lines += printable(step.saw).splitlines()
                lines.append(f"  {step.agent}: {printable(step.answer or '')}  ({step.reward})")
    return "\n".join(f"    {line}" for line in lines)


def _shares(success: Sequence[float | None]) -> str:
    """Before and after; empty in an environment without success."""
    return " → ".join(f"{share:.0%}" for share in success if share is not None)


if __name__ == "__main__":
    raise SystemExit(main())
