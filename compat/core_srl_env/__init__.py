"""Core SRL's games as OpenEnv finds and serves them: `AutoEnv.from_env("core-srl")`."""

from core_srl_env.client import CoreSrlAction, CoreSrlEnv, CoreSrlObservation

__all__ = ["CoreSrlAction", "CoreSrlEnv", "CoreSrlObservation"]
