"""Publication of new weights to remote players."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from srl_agents.episode import ModelVersion
from srl_train.distributed.ray_engine.remote_player import RemotePlayer
from srl_train.learners.critics import without_critic
from srl_train.players.publisher import weights_digest


class RayPublisher:
    """Brings weights to all players of a run, which take them over before their next game."""

    def __init__(
        self,
        players: Sequence[RemotePlayer],
        identities: Mapping[str, ModelVersion],
        put: Callable[[Any], Any],
    ) -> None:
        """`identities`: what the answers of each model and pool are marked with at first; `put`
        lays the weights, once, where all players take them from."""
        self._players = players
        self._identities = identities
        self._put = put

    def publish(self, name: str, version: int | str, tensors: Mapping[str, Tensor]) -> ModelVersion:
        """See WeightPublisher."""
        weights = without_critic(tensors)
        laid = self._put(weights)
        for player in self._players:
            player.tell(name, "publish", name, version, laid)
        return dataclasses.replace(
            self._identities[name], version=version, digest=weights_digest(weights)
        )
