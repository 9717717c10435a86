"""Entry module of the verifiers environment `srl-games`: `vf-eval srl-games`."""

from srl_extensions.bridges.verifiers import GameEnv, GameTaskset

__all__ = ["GameEnv", "GameTaskset"]
