"""Weights by TRL's formulas, by hand."""

import math

import pytest
import torch

from srl_train.learners.logprobs import sampler_weights

LOG2 = math.log(2.0)
# Ratios of 2, 4 and 1/2 in one row; 8 (masked), 1 (unknown to the sampler) and 1 in the other.
NOW = torch.tensor([[LOG2, 2 * LOG2, -LOG2], [3 * LOG2, 1.0, 0.0]])
SAMPLED = torch.tensor([[0.0, 0.0, 0.0], [0.0, math.nan, 0.0]])
MASK = torch.tensor([[1, 1, 1], [0, 1, 1]])


@pytest.mark.parametrize(
    "correction, expected",
    [
        ("tis", [[2.0, 3.0, 0.5], [1.0, 1.0, 1.0]]),
        ("mis", [[2.0, 0.0, 0.5], [1.0, 1.0, 1.0]]),
    ],
)
def test_weights_by_hand(correction, expected):
    found = sampler_weights(NOW, SAMPLED, MASK, correction, 3.0)
    torch.testing.assert_close(found, torch.tensor(expected))
