"""Publication of new weights to everything that samples from a model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from torch import Tensor


class WeightPublisher(ABC):
    """Publishes weights to the samplers of a model."""

    @abstractmethod
    def publish(self, name: str, version: int | str, tensors: Mapping[str, Tensor]) -> None:
        """Sample new answers of a model or opponent pool from these weights.

        Args:
            name: Model or opponent pool.
            version: Version that answers are marked with.
            tensors: All trainable weights, by parameter name.
        """

    def publish_update(self, name: str, version: int, publish: Callable[[], None]) -> None:
        """Publish the weights of an update, if this publisher publishes every update.

        Args:
            name: Model.
            version: Number of the model's updates.
            publish: Publishes the newest weights.
        """
        publish()
