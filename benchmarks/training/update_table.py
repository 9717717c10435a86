"""Which models' weights change and by how much, for every strategy on every mode, per round.

python -m benchmarks.training.update_table [--rounds 5] [--budget-rounds 20]

Four embedded models play coop_compete, a group of 8 episodes of 4 turns a round. Everything is
judged by the live weights before and after each round. Exit code 1 if a claim does not hold.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import transformers

from benchmarks.training import records, sample_budgets, update_checks
from benchmarks.training.observed_run import ObservedRound, observe
from benchmarks.training.records import Check
from srl_train.advantages.reward_modes import MODES
from srl_train.config import yaml_file
from srl_train.updates import STRATEGIES

SETTING: Mapping[str, Any] = {
    "environment.name": "coop_compete_v0",
    "environment.options": {"num_agents": 4, "max_cycles": 4},
    "models.count": 4,
    "rollout.group_size": 8,
    "rollout.groups_per_round": 1,
}
OF_STRATEGY: Mapping[str, Mapping[str, Any]] = {
    # Patience short enough to be seen at work in a few rounds.
    "selective": {"updates.selected_fraction": 0.5, "updates.patience": 2},
    # In standard errors: at this temperature the models' shares in the mean differ clearly.
    "federated": {"updates.federation_weights": "scores", "updates.federation_temperature": 1.0},
}
REFERENCE = "asynchronous"  # its models learn alone: played first, the others compare with it


def measure(
    rounds: int,
    budget_rounds: int,
    setting: Mapping[str, Any] = SETTING,
    modes: Sequence[str] = tuple(MODES),
    strategies: Sequence[str] = tuple(STRATEGIES),
) -> dict[str, Any]:
    """{"changes": {strategy: {mode: [{model: L2 norm} per round]}}, "checks": {strategy: {mode:
    [Check]}}, "budgets": see sample_budgets}.
    """
    changed: dict[str, dict[str, Any]] = {}
    checks: dict[str, dict[str, list[Check]]] = {}
    for mode in modes:
        alone: list[ObservedRound] = []
        for strategy in (REFERENCE, *(name for name in strategies if name != REFERENCE)):
            seen = _observed(setting, strategy, mode, rounds)
            alone = alone or seen
            changed.setdefault(strategy, {})[mode] = [update_checks.changes(one) for one in seen]
            checks.setdefault(strategy, {})[mode] = [
                update_checks.accounted(seen),
                *_claims(strategy)(seen, alone[0]),
            ]
    paced = {**setting, "mode.name": modes[0], "updates.strategy": "asynchronous"}
    return {
        "changes": changed,
        "checks": checks,
        "budgets": sample_budgets.measure(paced, budget_rounds),
    }


def markdown(result: Mapping[str, Any]) -> str:
    """The tables and, under each, its claims."""
    parts = []
    for strategy, modes in result["changes"].items():
        models = list(next(iter(modes.values()))[0])
        rows = [
            (mode, number, *(f"{change:.4f}" if change else "unchanged" for change in one.values()))
            for mode, rounds in modes.items()
            for number, one in enumerate(rounds)
        ]
        parts += [
            f"**{strategy}**: L2 norm of the change of each model's weights",
            records.table(("mode", "round", *models), rows),
            _by_mode(result["checks"][strategy]),
        ]
    parts += [
        "**asynchronous, with sample budgets**",
        sample_budgets.markdown(result["budgets"]),
        records.listed(result["budgets"]["checks"]),
    ]
    return "\n\n".join(parts)


def all_checks(result: Mapping[str, Any]) -> list[Check]:
    """Every claim that was judged."""
    by_mode = [c for modes in result["checks"].values() for own in modes.values() for c in own]
    return [*by_mode, *result["budgets"]["checks"]]


def plain(result: Mapping[str, Any]) -> dict[str, Any]:
    """The result as JSON takes it."""
    budgets = result["budgets"]
    return {
        "changes": result["changes"],
        "checks": {
            strategy: {mode: [vars(check) for check in own] for mode, own in modes.items()}
            for strategy, modes in result["checks"].items()
        },
        "budgets": {**budgets, "checks": [vars(check) for check in budgets["checks"]]},
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="per strategy and mode")
    parser.add_argument("--budget-rounds", type=int, default=20, help="with sample budgets")
    records.add_arguments(parser)
    asked = parser.parse_args(arguments)
    transformers.utils.logging.disable_progress_bar()
    result = measure(asked.rounds, asked.budget_rounds)
    checks = all_checks(result)
    held = sum(check.held for check in checks)
    text = f"{markdown(result)}\n\n{held} of {len(checks)} claims held."
    records.keep("update_table", plain(result), text, asked)
    return 0 if held == len(checks) else 1


def _observed(
    setting: Mapping[str, Any], strategy: str, mode: str, rounds: int
) -> list[ObservedRound]:
    own = {"updates.strategy": strategy, "mode.name": mode, "rounds": rounds}
    return observe(yaml_file.from_tree({}, {**setting, **OF_STRATEGY.get(strategy, {}), **own}))


def _claims(strategy: str) -> Callable[[Sequence[ObservedRound], ObservedRound], list[Check]]:
    temperature = OF_STRATEGY["federated"]["updates.federation_temperature"]
    table: Mapping[str, Callable[[Sequence[ObservedRound], ObservedRound], list[Check]]] = {
        "synchronized": lambda rounds, alone: update_checks.stay_equal(rounds),
        "asynchronous": lambda rounds, alone: update_checks.each_on_its_own(rounds),
        "selective": lambda rounds, alone: update_checks.unselected_rest(rounds),
        "federated": lambda rounds, alone: update_checks.is_weighted_mean(
            rounds, alone, temperature
        ),
    }
    return table[strategy]


def _by_mode(checks: Mapping[str, Sequence[Check]]) -> str:
    """One line per claim, with what was seen in each mode."""
    lines = []
    for own in zip(*checks.values(), strict=True):
        missed = [mode for mode, check in zip(checks, own, strict=True) if not check.held]
        told = [f"{mode}: {check.seen}" for mode, check in zip(checks, own, strict=True)]
        if len({check.seen for check in own}) == 1:
            told = [own[0].seen]
        verdict = f"NOT HELD in {', '.join(missed)}" if missed else f"held in {len(own)} modes"
        lines.append(f"- {verdict}: {own[0].claim} ({'; '.join(told)})")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
