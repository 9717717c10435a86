"""What a round is accounted for: the row of metrics.jsonl, from its episodes and updates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from srl_agents.episode import AgentStep, Episode
from srl_train.buffers import Taken
from srl_train.modes import Rewards

if TYPE_CHECKING:
    from srl_train.run import Run


@dataclass
class UpdateAccount:
    """What one model's updates in one round came to."""

    samples: int = 0
    updates: int = 0
    steps_left_out: int = 0
    """Optimizer steps whose gradient was not finite."""
    staleness: list[int] = field(default_factory=list)
    age: list[int] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)
    weight_change: float = 0.0

    def add(self, taken: Taken, metrics: Mapping[str, float], changed: bool) -> None:
        """Account for one update; the metrics kept are the latest update's."""
        self.samples += len(taken.samples)
        self.updates += changed
        self.staleness += taken.staleness
        self.age += taken.age
        self.metrics = dict(metrics)


# TRL's names -> ours, for those worth a column of every run.
_KEPT = {
    "loss": "loss",
    "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
    "entropy": "entropy",
    "clip_ratio/region_mean": "clip_ratio",
    "kl": "kl",
    "reward_std": "reward_std",
    "frac_reward_zero_std": "frac_reward_zero_std",
    "value_loss": "value_loss",
    "explained_variance": "explained_variance",
    "approx_kl": "approx_kl",
    "stopped_early": "stopped_early",
}


def cooperation_rate(steps: Iterable[AgentStep]) -> float | None:
    """Share of actions that cooperate; None for a game without cooperate and compete."""
    actions = [step.decision.action for step in steps if "cooperation_ratio" in step.info]
    return sum(map(int, actions)) / len(actions) if actions else None


def parse_failures(steps: Iterable[AgentStep]) -> float:
    """Share of written answers that could not be read; 0 where nobody writes."""
    answers = [step.decision for step in steps if step.decision.text is not None]
    unread = sum(answer.parse_failure is not None for answer in answers)
    return unread / len(answers) if answers else 0.0


def success(episodes: Iterable[Episode]) -> float | None:
    """Share of seats that reached their goal; None for a game that has none to reach."""
    ends = [
        bool(step.info["success"])
        for episode in episodes
        for seat in episode.seats
        for step in episode.steps_of(seat)[-1:]
        if "success" in step.info
    ]
    return sum(ends) / len(ends) if ends else None


def environment_of(episode: Episode) -> str | None:
    """The label of the one that multitask_v0 played; None in all other environments."""
    label = episode.turns[0][0].info.get("environment") if episode.turns else None
    return None if label is None else str(label)


def by_environment(episodes: Iterable[Episode]) -> dict[str, dict[str, Any]]:
    """What came of each of the environments that multitask_v0 played, by label; else nothing."""
    parted: dict[str, list[Episode]] = {}
    for episode in episodes:
        label = environment_of(episode)
        if label is not None:
            parted.setdefault(label, []).append(episode)
    found = {}
    for label, own in sorted(parted.items()):
        steps = [step for episode in own for turn in episode.turns for step in turn]
        found[label] = {
            "episodes": len(own),
            "raw_reward": _mean([step.reward for step in steps]),
            "raw_return": _mean([total for one in own for total in one.returns().values()]),
            "success": success(own),
            "parse_failures": parse_failures(steps),
        }
    return found


def row(
    run: Run,
    number: int,
    *,
    kept: Sequence[Episode],
    shaped: Sequence[Rewards],
    left_out: Sequence[Episode],
    never_asked: Mapping[str, int],
    accounts: Mapping[str, UpdateAccount],
    seconds: Mapping[str, float],
) -> dict[str, Any]:
    """One line of metrics.jsonl. Rewards are means per seat and turn, returns per episode."""
    steps = [step for episode in kept for turn in episode.turns for step in turn]
    return {
        "round": number,
        "seconds": dict(seconds),
        "mode": run.config.mode.name,
        "strategy": run.config.updates.strategy,
        "mode_state": dict(run.mode_state),
        "environment": {
            "name": run.config.environment.name,
            "episodes": len(kept) + len(left_out),
            "failed_episodes": sum(e.failure is not None for e in left_out),
            "left_out_episodes": len(left_out),
            "raw_reward": _mean([step.reward for step in steps]),
            "shaped_reward": _mean([r for one in shaped for own in one.values() for r in own]),
            "cooperation_rate": cooperation_rate(steps),
            "success": success(kept),
            "parse_failures": parse_failures(steps),
            "winners": dict(Counter(w for e in kept if (w := winner(e)) is not None)),
        },
        "by_environment": by_environment(kept),
        "models": {
            model: _model_row(run, model, kept, shaped, never_asked, account)
            for model, account in accounts.items()
        },
    }


def winner(episode: Episode) -> str | None:
    """Who won, where the game says so."""
    last = episode.turns[-1] if episode.turns else ()
    return next((step.info["winner"] for step in last if "winner" in step.info), None)


def _model_row(
    run: Run,
    model: str,
    kept: Sequence[Episode],
    shaped: Sequence[Rewards],
    never_asked: Mapping[str, int],
    account: UpdateAccount,
) -> dict[str, Any]:
    seats = run.seats_of(model)
    steps = [step for episode in kept for seat in seats for step in episode.steps_of(seat)]
    found = account.metrics
    metrics = {ours: found[theirs] for theirs, ours in _KEPT.items() if theirs in found}
    return {
        "seats": list(seats),
        "raw_reward": _mean([step.reward for step in steps]),
        "raw_return": _mean([episode.returns()[seat] for episode in kept for seat in seats]),
        "shaped_return": _mean([sum(rewards[seat]) for rewards in shaped for seat in seats]),
        "parse_failures": parse_failures(steps),
        "cooperation_rate": cooperation_rate(steps),
        "updated": account.updates > 0,
        "updates": run.versions[model],
        "weight_change": account.weight_change,
        "steps_left_out": account.steps_left_out,
        "samples": account.samples,
        "samples_dropped_stale": run.buffers[model].dropped.total(),
        # By seat: of those, and the games of this round that are left out because it was never
        # asked in one of their group.
        "stale_by_seat": {seat: run.buffers[model].dropped[seat] for seat in seats},
        "never_asked_by_seat": {seat: never_asked[seat] for seat in seats},
        "staleness": _summary(account.staleness),
        "age_rounds": _summary(account.age),
        **metrics,
    }


def _summary(values: Sequence[int]) -> dict[str, float] | None:
    return {"mean": sum(values) / len(values), "max": max(values)} if values else None


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
