"""Trainable models: the Learner protocol and its implementations on TRL's trainers."""

from srl_envs.tables import Plugin, PluginTable
from srl_train.errors import ConfigError

ALGORITHMS = PluginTable(
    "core_srl.algorithms",
    {
        "grpo": Plugin("srl_train.learners.trl_grpo:GrpoLearner"),
        "ppo": Plugin("srl_train.learners.trl_ppo:PpoLearner"),
        "sft": Plugin("srl_train.learners.trl_offline:SftLearner"),
        "dpo": Plugin("srl_train.learners.trl_offline:DpoLearner"),
    },
    ConfigError,
)
"""Learner classes by name. TRL is imported when a class is loaded."""
