"""The name by which verifiers finds our games: `vf-eval srl-games`."""

from srl_agents.integrations.verifiers import GameEnv, GameTaskset

__all__ = ["GameEnv", "GameTaskset"]
