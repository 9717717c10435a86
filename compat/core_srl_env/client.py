"""Client of Core SRL's games for OpenEnv, by the names that its discovery expects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openenv.core import EnvClient
from openenv.core.client_types import StepResult

from srl_extensions.remote.openenv_server import GameState, JointAction, JointObservation


class CoreSrlAction(JointAction):
    """What the agents do in one turn: `actions`, agent -> answer."""


class CoreSrlObservation(JointObservation):
    """What the agents see after a turn."""


class CoreSrlEnv(EnvClient[CoreSrlAction, CoreSrlObservation, GameState]):
    """A session of one game at a time; `reset(environment=...)` chooses among those served."""

    def _step_payload(self, action: CoreSrlAction) -> dict[str, Any]:
        return {"actions": dict(action.actions)}

    def _parse_result(self, payload: Mapping[str, Any]) -> StepResult[CoreSrlObservation]:
        reward, done = payload.get("reward"), bool(payload.get("done", False))
        seen = CoreSrlObservation(**payload["observation"] | {"reward": reward, "done": done})
        return StepResult(observation=seen, reward=reward, done=done)

    def _parse_state(self, payload: Mapping[str, Any]) -> GameState:
        return GameState(**payload)
