"""The name by which verifiers finds our games: `vf-eval srl-games`."""

from srl_extensions.bridges.verifiers import GameEnv, GameTaskset

__all__ = ["GameEnv", "GameTaskset"]
