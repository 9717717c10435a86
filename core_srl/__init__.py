"""Core SRL: reinforcement learning of several language models at once in multi-agent games.

The documented names, each from the part that does the work:

    from core_srl import MultiModelConfig, MultiModelTrainer, TrainingMode

Nothing heavy is imported before a name is used.
"""

from importlib import import_module
from typing import Any

from srl_envs.loading import needed_by

_NAMES = {
    "core_srl.config": ("MultiModelConfig", "TrainingMode", "WeightUpdateStrategy"),
    "core_srl.trainer": (
        "MultiModelTrainer", "create_multimodel_trainer", "create_cooperative_multimodel_trainer",
        "create_competitive_multimodel_trainer", "quick_start_multimodel_training",
        "list_available_checkpoints", "load_checkpoint_metadata",
    ),
    "core_srl.algorithms": (
        "RLConfig", "RLAlgorithm", "CooperationFactor", "CooperationType", "CompetenceFactor",
        "CompetenceType",
    ),
    "core_srl.models": ("MODERN_MODELS", "get_available_models", "get_version_info"),
    "core_srl.llm_config": (
        "LLMBackend", "LLMConfig", "LLMResponse", "UpdateStrategy", "LoRAConfig",
    ),
    "core_srl.managers": (
        "SharedLLMManager", "create_qwen3_manager", "create_qwen_coder_manager",
        "create_qwen_math_manager", "create_llama3_manager", "create_openai_manager",
        "create_claude_manager",
    ),
    "core_srl.adapters": ("LoRAManager", "create_lora_manager"),
    "core_srl.servers": (
        "DistributedLoRAScheduler", "create_distributed_lora_scheduler", "UnifiedScheduler",
        "create_unified_scheduler", "create_cooperative_scheduler", "create_competitive_scheduler",
    ),
    "core_srl.monitoring": (
        "MonitoringConfig", "UnifiedMonitor", "create_unified_monitor", "GraphVisualizer",
        "create_graph_visualizer",
    ),
    "core_srl.environments": (
        "EnvironmentType", "MultiModelTrainingEnvironment", "CoopCompeteEnv",
        "create_multi_model_coop_compete_env", "create_multi_model_team_battle",
        "create_multi_model_staged_env", "create_maze_training_env", "create_social_training_env",
    ),
    "srl_agents.baselines": ("SimplePG", "OurMethodPolicy"),
    "srl_agents.evaluation.matrix_game": ("run_benchmark",),
}  # fmt: skip
"""Module -> the documented names that it has."""
_PLACES = {name: module for module, names in _NAMES.items() for name in names}
__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        with needed_by(f"core_srl.{name}"):
            return getattr(import_module(_PLACES[name]), name)
    raise AttributeError(f"module 'core_srl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
