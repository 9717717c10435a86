"""Games of a run, played by all of its processes together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from srl_agents.episode import Episode
from srl_agents.rollout import play_many
from srl_train import processes
from srl_train.run import Run


def play(
    run: Run,
    starts: Sequence[int],
    courses: Sequence[int],
    options: Sequence[Mapping[str, Any]],
    *,
    extra: Mapping[str, Any] | None = None,
    record_states: bool = False,
) -> list[Episode]:
    """One episode per entry of `starts` with the run's seats; every process gets all of them.

    starts, courses, options: each episode's reset seed, seed of its seats, and reset options.
    Each process plays its share and hands it round, except under fsdp, where no process has a
    whole model: there all play everything, in step. Raises TrainingError where they part.
    """
    sharded = run.config.parallel == "fsdp"
    own = slice(None) if sharded else _place_of(len(starts))
    played = play_many(
        run.make_env,
        run.policies,
        starts[own],
        policy_seeds=courses[own],
        speaks_first=run.speaks_first,
        reset_options=options[own],
        names=run.seats,
        extra=extra,
        record_states=record_states,
    )
    if not sharded:
        return processes.gather(played)
    processes.check_same("what was played", [_course(episode) for episode in played])
    return played


def _place_of(games: int) -> slice:
    own = processes.share_of(range(games))
    return slice(own.start, own.stop)  # type: ignore[attr-defined]


def _course(episode: Episode) -> tuple[Any, ...]:
    """What a game must have in common in all processes."""
    answers = [
        (step.agent, step.decision.text, str(step.decision.action), step.reward)
        for turn in episode.turns
        for step in turn
    ]
    return episode.seed, episode.failure, answers
