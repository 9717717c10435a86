"""Combinations of settings that do not work together, in one table.

`check` refuses a configuration in which one choice excludes a fact that another choice implies.
Rules about values belong to the section of the value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from srl_agents.llm.backends.registry import is_api_name
from srl_train.errors import ConfigError

if TYPE_CHECKING:
    from srl_train.config.run import RunConfig

FACTS = {
    "own_advantages": "the learner computes the advantages",
    "credit": "a credit scheme assigns the advantages",
    "overlap": "rounds are played while models learn",
    "processes": "several torchrun processes train in step",
    "sharded": "no process has whole weights",
    "adapters": "models are adapters on shared weights",
    "objects": "models are objects of the calling program",
    "quantized": "frozen weights are quantized",
    "servers": "models sample in servers, from published weights",
    "whole_servers": "servers have whole models and cannot load a second version",
    "pools": "past weights play next to the current ones",
    "group_opponents": "each group of episodes has separate opponents",
    "averaged": "models receive averaged parameters",
    "own_units": "parameters are in units of the model's own returns",
    "offline": "models learn from data before the rounds",
    "reference": "a reference adapter is loaded",
    "reference_twice": "DPO loads a reference adapter of its own",
    "moving": "the reference follows the weights",
    "api": "an API model plays",
    "contexts": "every answer has a separate context",
    "truncated": "answers are sampled from a part of the vocabulary",
}


@dataclass(frozen=True)
class Part:
    """Choice of a setting, with the facts (keys of FACTS) that it implies or excludes."""

    setting: str
    """Description of the choice in error messages, as "opponent_pools"."""
    is_chosen: Callable[[RunConfig], object]
    """Function whose result is true if a configuration makes the choice."""
    facts: str = ""
    """Facts that the choice implies, separated by spaces."""
    excludes: str = ""
    """Facts that the choice does not work with, separated by spaces."""


def _any_algorithm(test: Callable[[Any], object]) -> Callable[[RunConfig], object]:
    return lambda config: any(test(own) for own in config.learned_by.values())


def _averages_own_units(config: RunConfig) -> bool:
    groups = getattr(config.updates, "groups", ()) or [tuple(config.learned_by)]
    averaged = [config.learned_by[name] for group in groups if len(group) > 1 for name in group]
    return any(own.own_units for own in averaged)


def _truncates(config: RunConfig) -> bool:
    sections = (config.models.sampling, *config.models.agent_sampling.values())
    return any(own.top_p < 1 or own.top_k for own in sections)


PARTS = (
    Part(
        "algorithm.name ppo", _any_algorithm(lambda o: o.OWN_ADVANTAGES), "own_advantages", "credit"
    ),
    Part("sampling with top_p or top_k", _truncates, "truncated"),
    Part(
        "algorithm.trl off_policy_mask_threshold",
        _any_algorithm(lambda o: o.trl.get("off_policy_mask_threshold")),
        excludes="truncated",
    ),
    Part("algorithm.value_normalization running", _averages_own_units, "own_units", "averaged"),
    Part("algorithm.beta", _any_algorithm(lambda o: o.beta), "reference"),
    Part("algorithm.reference moving", _any_algorithm(lambda o: o.reference == "moving"), "moving"),
    Part("credit.name", lambda c: c.credit.name != "per_agent", "credit"),
    Part(
        "engine.name ray",
        lambda c: c.engine.name == "ray",
        excludes="processes objects sharded offline",
    ),
    Part(
        "engine.play_ahead",
        lambda c: c.engine.play_ahead,
        "overlap",
        "processes group_opponents truncated",
    ),
    Part(
        "engine.play_ahead with served models",
        lambda c: c.engine.play_ahead and not c.backend.IN_PROCESS,
        excludes="pools",
    ),
    Part(
        "backend with served models",
        lambda c: not c.backend.IN_PROCESS,
        "servers",
        "processes sharded quantized objects truncated",
    ),
    Part(
        "backend with served models, without models.adapters",
        lambda c: not c.backend.IN_PROCESS and c.models.adapters is None,
        "whole_servers",
        "pools overlap",
    ),
    Part(
        "parallel fsdp",
        lambda c: c.parallel == "fsdp",
        "sharded",
        "adapters pools offline own_advantages moving api",
    ),
    Part("models.adapters", lambda c: c.models.adapters, "adapters", "objects"),
    Part(
        "models.context",
        lambda c: c.models.context != "full",
        "contexts",
        "processes sharded offline",
    ),
    Part("models.quantization", lambda c: c.models.quantization, "quantized"),
    Part(
        "models.frozen_models behind an API",
        lambda c: any(map(is_api_name, c.models.frozen_models.values())),
        "api",
    ),
    Part("opponent_pools", lambda c: c.opponent_pools, "pools"),
    Part(
        "opponent_pools.draw_each group",
        lambda c: any(pool.draw_each == "group" for pool in c.opponent_pools.values()),
        "group_opponents",
    ),
    Part("updates.sample_budget", lambda c: c.sample_budget, excludes="truncated"),
    Part(
        "updates.strategy that averages",
        lambda c: c.updates.strategy in ("synchronized", "federated"),
        "averaged",
    ),
    Part("sft", lambda c: c.sft, "offline"),
    Part("dpo", lambda c: c.dpo, "offline"),
    Part(
        "dpo with models.adapters",
        lambda c: c.dpo and c.models.adapters,
        "reference_twice",
        "reference",
    ),
)


def check(config: RunConfig, *extra: Part) -> None:
    """Raise ConfigError for the first two choices in a configuration that exclude each other.

    `extra` are choices outside the configuration that were made, as `PROCESSES` for torchrun.
    """
    chosen = [*extra, *(part for part in PARTS if part.is_chosen(config))]
    for one, other, fact in conflicts(chosen):
        raise ConfigError(
            f"{one.setting}: cannot be combined with {other.setting}, where {FACTS[fact]}: "
            "leave one of the two out"
        )


def conflicts(parts: list[Part]) -> Iterator[tuple[Part, Part, str]]:
    """Yield (part, other part, fact) for each fact of the other part that the part excludes."""
    for one in parts:
        for other in parts:
            for fact in sorted(set(one.excludes.split()) & set(other.facts.split())):
                yield one, other, fact


PROCESSES = Part("torchrun with several processes", lambda config: False, "processes")
"""Training in several processes, which the environment variables of torchrun announce."""
OBJECTS = Part("model objects passed to Trainer", lambda config: False, "objects")
"""Training of model objects, which a configuration cannot contain."""
