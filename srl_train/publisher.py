"""Interface for the publication of new weights to the samplers of a model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from torch import Tensor


class WeightPublisher(ABC):
    """Base class of publishers of weights to the samplers of models and opponent pools."""

    @abstractmethod
    def publish(self, name: str, version: int | str, tensors: Mapping[str, Tensor]) -> None:
        """Make the samplers of a model or opponent pool use these weights for later answers.

        Args:
            name: Model or opponent pool.
            version: Version that the samplers record with each answer: the update count of a model,
                or the name of a pool's snapshot.
            tensors: Parameter name to tensor, for all trainable parameters.
        """
