"""Presets: the settings of published algorithms."""

from __future__ import annotations

from collections.abc import Mapping
from pkgutil import resolve_name
from typing import Any, Literal

from pydantic import BaseModel

from srl_train.errors import ConfigError

PresetName = Literal[
    "grpo", "dr_grpo", "dapo", "gspo", "rloo", "reinforce_plus_plus", "magrpo", "mappo",
    "ippo",
]  # fmt: skip
Tree = Mapping[str, Any]

PRESETS: Mapping[str, Mapping[str, Tree] | str] = {
    # Shao et al. 2024, eq. 3. TRL's default multiplies the divergence by a differentiable ratio.
    "grpo": {"algorithm": {"loss": "grpo", "beta": 0.04, "trl": {"use_bias_correction_kl": False}}},
    # Liu et al. 2025 (Understanding R1-Zero-like training), sec. 3.2.
    "dr_grpo": {"algorithm": {"loss": "dr_grpo", "scale_rewards": "none"}},
    # Yu et al. 2025, sec. 3, without its dynamic sampling.
    "dapo": {
        "algorithm": {
            "loss": "dapo",
            "trl": {"epsilon_high": 0.28, "mask_truncated_completions": True},
        }
    },
    # Zheng et al. 2025, eq. 5 and sec. 5.1.
    "gspo": {
        "algorithm": {
            "loss": "grpo",
            "clip_range": 3e-4,
            "minibatches": 4,
            "trl": {"epsilon_high": 4e-4, "importance_sampling_level": "sequence"},
        }
    },
    # Ahmadian et al. 2024, sec. 3.2.
    "rloo": {"credit": {"name": "leave_one_out"}},
    # Hu et al. 2025, sec. 3, with the divergence in the loss (algorithm.beta), not in the reward.
    "reinforce_plus_plus": {"credit": {"name": "round"}},
    # Liu et al. 2025 (LLM collaboration with multi-agent RL), over whole episodes.
    "magrpo": {"algorithm": {"scale_rewards": "none"}, "credit": {"name": "team_joint"}},
    "mappo": "srl_extensions.ppo.config:MAPPO",
    "ippo": "srl_extensions.ppo.config:IPPO",
}
"""Preset to its settings that differ from the defaults, by section, or to their `module:name`."""


def settings_of(preset: str) -> Mapping[str, Tree]:
    """Return section -> settings that the preset changes. Raises KeyError for an unknown name."""
    settings = PRESETS[preset]
    return resolve_name(settings) if isinstance(settings, str) else settings


def filled_in(tree: Tree) -> dict[str, Any]:
    """Return a copy of a run's configuration with the settings of its `preset` filled in.

    `tree` is the unvalidated configuration; settings in it have priority. Its "preset" must be in
    PRESETS. Raises ConfigError if `tree` names another algorithm or credit scheme than the preset.
    """
    preset, found = settings_of(tree["preset"]), dict(tree)
    for section, usual in (("algorithm", "grpo"), ("credit", "per_agent"), ("rollout", None)):
        settings = {**({"name": usual} if usual else {}), **preset.get(section, {})}
        given = tree.get(section, {})
        if isinstance(given, BaseModel):
            name = {"name": given.name} if usual else {}  # type: ignore[attr-defined]
            given = given.model_dump(exclude_unset=True) | name
        if not isinstance(given, Mapping):
            continue  # The validation of the section raises the error.
        if given.get("name", settings.get("name")) != settings.get("name"):
            raise ConfigError(
                f"{section}.name: must be {settings['name']!r} with the preset "
                f"{tree['preset']!r}, got {given['name']!r}"
            )
        if settings:
            found[section] = {**settings, **given}
        if "trl" in settings and isinstance(given.get("trl"), Mapping):
            found[section]["trl"] = {**settings["trl"], **given["trl"]}
    return found
