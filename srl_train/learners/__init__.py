"""Trainable models: the Learner protocol and its implementations on TRL's trainers."""

from __future__ import annotations

from srl_envs.tables import Plugin, PluginTable
from srl_train.errors import ConfigError

ALGORITHMS = PluginTable(
    "core_srl.algorithms",
    {
        "grpo": Plugin("srl_train.config.learning.learners"),
        "ppo": Plugin("srl_extensions.ppo.config"),
    },
    ConfigError,
)
"""Algorithms of training rounds: name to a module with a `SECTION`, the class of the section
`algorithm`, a subclass of srl_train.config.learning.learners.SurrogateConfig."""
