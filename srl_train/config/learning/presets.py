"""Published algorithms by name: the settings of ours that each stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel

from srl_train.config.learning.learners import GrpoConfig, PpoConfig
from srl_train.errors import ConfigError

PresetName = Literal[
    "grpo",
    "dr_grpo",
    "dapo",
    "gspo",
    "rloo",
    "reinforce_plus_plus",
    "magrpo",
    "at_grpo",
    "mappo",
    "ippo",
]
Tree = Mapping[str, Any]

_YU: Tree = {
    "name": "ppo",
    "value_normalisation": "running",
    "normalize_advantages": "update",
    "gae_lambda": 0.95,
    "num_iterations": 5,
    "minibatches": 1,
    "value_coefficient": 1.0,
    "value_clip": 0.2,
    "entropy_coef": 0.01,
}
"""PPO as Yu et al. 2022 recommend it: sec. 5, and the tables of their appendix."""


@dataclass(frozen=True)
class Preset:
    """Settings that a published algorithm differs in from the defaults, and where it is from."""

    source: str
    algorithm: Tree
    credit: Tree
    rollout: Tree = field(default_factory=dict)


PRESETS: Mapping[str, Preset] = {
    "grpo": Preset(
        "Shao et al. 2024, eq. 3",
        # TRL's default multiplies the divergence by a differentiable ratio.
        {"loss": "grpo", "beta": 0.04, "trl": {"use_bias_correction_kl": False}},
        {},
    ),
    "dr_grpo": Preset(
        "Liu et al. 2025 (Understanding R1-Zero-like training), sec. 3.2",
        {"loss": "dr_grpo", "scale_rewards": "none"},
        {},
    ),
    "dapo": Preset(
        "Yu et al. 2025, sec. 3, without its dynamic sampling",
        {"loss": "dapo", "trl": {"epsilon_high": 0.28, "mask_truncated_completions": True}},
        {},
    ),
    "gspo": Preset(
        "Zheng et al. 2025, eq. 5 and sec. 5.1",
        {
            "loss": "grpo",
            "clip_range": 3e-4,
            "minibatches": 4,
            "trl": {"epsilon_high": 4e-4, "importance_sampling_level": "sequence"},
        },
        {},
    ),
    "rloo": Preset("Ahmadian et al. 2024, sec. 3.2", {}, {"name": "leave_one_out"}),
    "reinforce_plus_plus": Preset(
        "Hu et al. 2025, sec. 3, with the divergence in the loss (`algorithm.beta`) and not in the "
        "reward",
        {},
        {"name": "round"},
    ),
    "magrpo": Preset(
        "Liu et al. 2025 (LLM collaboration with multi-agent RL), over whole games",
        {"scale_rewards": "none"},
        {"name": "team_joint"},
    ),
    "at_grpo": Preset(
        "Zhao et al. 2025 (Stronger-MAS), sec. 4, with the mode's rewards",
        {},
        {},
        {"branching": {"follow": "best", "value": "turn"}},
    ),
    "mappo": Preset(
        "Yu et al. 2022, sec. 5, with a squared error for the values",
        {**_YU, "critic": "central"},
        {},
    ),
    "ippo": Preset(
        "de Witt et al. 2020, with the settings of `mappo`: Yu et al. 2022's IPPO",
        {**_YU, "critic": "separate"},
        {},
    ),
}
"""Name -> what it stands for."""


def filled_in(tree: Tree) -> dict[str, Any]:
    """A run's tree with what its `preset` says where it says nothing itself.

    Raises ConfigError where the tree's own algorithm or credit assignment is another one, and where
    its own loss leaves settings of the preset unread.
    """
    preset = PRESETS[tree["preset"]]
    found = dict(tree)
    for section, settings in (
        ("algorithm", {"name": "grpo", **preset.algorithm}),
        ("credit", {"name": "per_agent", **preset.credit}),
    ):
        given = tree.get(section, {})
        if isinstance(given, BaseModel):
            given = given.model_dump(exclude_unset=True) | {"name": given.name}  # type: ignore[attr-defined]
        if not isinstance(given, Mapping):
            continue  # which is refused where sections are read
        if given.get("name", settings["name"]) != settings["name"]:
            raise ConfigError(
                f"{section}.name: got {given['name']!r}, and the preset {tree['preset']!r} is of "
                f"{settings['name']!r}: leave one of the two out"
            )
        if section == "algorithm":
            for name in ("loss", "beta"):
                _check_reads(tree["preset"], settings, name, given.get(name))
        found[section] = {**settings, **given}
        if "trl" in settings and isinstance(given.get("trl"), Mapping):
            found[section]["trl"] = {**settings["trl"], **given["trl"]}
    rollout = tree.get("rollout", {})
    if isinstance(rollout, BaseModel):
        rollout = rollout.model_dump(exclude_unset=True)
    if preset.rollout and isinstance(rollout, Mapping):
        found["rollout"] = {**preset.rollout, **rollout}
    return found


def refuse_another(preset: str | None, other: str | None) -> None:
    """Raise ConfigError for a preset that is to take the place of another, already filled in."""
    if None not in (preset, other) and preset != other:
        raise ConfigError(
            f"preset: got {other!r} in place of {preset!r}, whose settings stand in algorithm, "
            "credit and rollout now: begin with a configuration without a preset"
        )


def _check_reads(preset: str, settings: Tree, name: str, value: Any) -> None:
    """Raise ConfigError for a value with which settings of the preset have no effect."""
    kind = PpoConfig if settings["name"] == "ppo" else GrpoConfig
    try:
        kind(**{name: value})
    except ConfigError:
        return  # Reading the section refuses the value itself.
    try:
        kind(**{**settings, name: value})
    except ConfigError as error:
        raise ConfigError(
            f"algorithm.{name}: got {value!r}, which does not read all that the preset {preset!r} "
            "sets: leave one of the two out"
        ) from error
