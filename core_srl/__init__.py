"""Core SRL: reinforcement learning of several language models at once in multi-agent games.

The documented names, each from the part that does the work:

    from core_srl import MultiModelConfig, MultiModelTrainer, TrainingMode

Nothing heavy is imported before a name is used.
"""

from importlib import import_module
from typing import Any

from srl_envs.loading.extras import needed_by

_PLACES = {
    # Settings and training.
    "MultiModelConfig": "core_srl.config.multi_model",
    "TrainingMode": "core_srl.config.multi_model",
    "WeightUpdateStrategy": "core_srl.config.multi_model",
    "MultiModelTrainer": "core_srl.trainer",
    "create_multimodel_trainer": "core_srl.trainer",
    "create_cooperative_multimodel_trainer": "core_srl.trainer",
    "create_competitive_multimodel_trainer": "core_srl.trainer",
    "quick_start_multimodel_training": "core_srl.trainer",
    "RLConfig": "core_srl.algorithms",
    "RLAlgorithm": "core_srl.algorithms",
    "CooperationFactor": "core_srl.factors",
    "CooperationType": "core_srl.factors",
    "CompetenceFactor": "core_srl.factors",
    "CompetenceType": "core_srl.factors",
    "list_available_checkpoints": "core_srl.trainer",
    "load_checkpoint_metadata": "core_srl.trainer",
    "make_rollout_func": "srl_train.learners.trl_rollout",
    "episode_return_reward": "srl_train.learners.trl_rollout",
    # Models.
    "MODERN_MODELS": "core_srl.models",
    "get_available_models": "core_srl.models",
    "LLMBackend": "core_srl.managers.llm_config",
    "LLMConfig": "core_srl.managers.llm_config",
    "LLMResponse": "core_srl.managers.llm_config",
    "SharedLLMManager": "core_srl.managers.managers",
    "UpdateStrategy": "core_srl.managers.llm_config",
    "create_qwen3_manager": "core_srl.managers.managers",
    "create_qwen_coder_manager": "core_srl.managers.managers",
    "create_qwen_math_manager": "core_srl.managers.managers",
    "create_llama3_manager": "core_srl.managers.managers",
    "create_openai_manager": "core_srl.managers.managers",
    "create_claude_manager": "core_srl.managers.managers",
    "LoRAConfig": "core_srl.adapters.lora_config",
    "LoRAManager": "core_srl.adapters.lora_adapters",
    "create_lora_manager": "core_srl.adapters.lora_adapters",
    "DistributedLoRAScheduler": "core_srl.servers.adapter_servers",
    "create_distributed_lora_scheduler": "core_srl.servers.adapter_servers",
    # Servers.
    "UnifiedScheduler": "core_srl.servers.schedulers",
    "create_unified_scheduler": "core_srl.servers.schedulers",
    "create_cooperative_scheduler": "core_srl.servers.schedulers",
    "create_competitive_scheduler": "core_srl.servers.schedulers",
    # Caches, and other frameworks.
    "create_kv_cache_manager": "core_srl.integrations.kv_cache",
    "VERLTrainer": "core_srl.integrations.verl",
    "create_verl_trainer": "core_srl.integrations.verl",
    "create_areal_integration": "core_srl.integrations.areal",
    "AReaLVERLBridge": "core_srl.integrations.bridge",
    "create_areal_verl_bridge": "core_srl.integrations.bridge",
    # Monitors.
    "MonitoringConfig": "core_srl.monitoring.monitor",
    "UnifiedMonitor": "core_srl.monitoring.monitor",
    "GraphVisualizer": "core_srl.monitoring.visualizer",
    "create_unified_monitor": "core_srl.monitoring.monitor",
    "create_graph_visualizer": "core_srl.monitoring.visualizer",
    # Environments and scripted policies.
    "EnvironmentType": "core_srl.environments",
    "MultiModelTrainingEnvironment": "core_srl.environments",
    "CoopCompeteEnv": "core_srl.environments",
    "create_multi_model_coop_compete_env": "core_srl.environments",
    "create_multi_model_team_battle": "core_srl.environments",
    "create_multi_model_staged_env": "core_srl.environments",
    "create_maze_training_env": "core_srl.environments",
    "create_social_training_env": "core_srl.environments",
    "SimplePG": "srl_agents.baselines",
    "OurMethodPolicy": "srl_agents.baselines",
    "run_benchmark": "srl_agents.evaluation.matrix_game.cross_play",
    "get_version_info": "core_srl.models",
}
__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        with needed_by(f"core_srl.{name}"):
            return getattr(import_module(_PLACES[name]), name)
    raise AttributeError(f"module 'core_srl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
