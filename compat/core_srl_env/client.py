"""OpenEnv client of Core SRL's environments, with the names that OpenEnv's discovery expects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openenv.core import EnvClient
from openenv.core.client_types import StepResult

from srl_extensions.remote.openenv_server import GameState, JointAction, JointObservation


class CoreSrlAction(JointAction):
    """Joint action of one step: `actions` maps agents to answers."""


class CoreSrlObservation(JointObservation):
    """Joint observation after one step."""


class CoreSrlEnv(EnvClient[CoreSrlAction, CoreSrlObservation, GameState]):
    """Session of one episode at a time; `reset(environment=...)` selects the environment."""

    def _step_payload(self, action: CoreSrlAction) -> dict[str, Any]:
        return {"actions": dict(action.actions)}

    def _parse_result(self, payload: Mapping[str, Any]) -> StepResult[CoreSrlObservation]:
        reward, done = payload.get("reward"), bool(payload.get("done", False))
        seen = CoreSrlObservation(**payload["observation"] | {"reward": reward, "done": done})
        return StepResult(observation=seen, reward=reward, done=done)

    def _parse_state(self, payload: Mapping[str, Any]) -> GameState:
        return GameState(**payload)
