import json
import math
from collections import OrderedDict

import numpy as np
import pytest
import torch
from torch import tensor

from srl_train.checkpoints import join_tensors, split_tensors
from srl_train.errors import CheckpointError


def through_json(value):
    tensors, plain = split_tensors(value)
    return join_tensors(tensors, json.loads(json.dumps(plain)))


@pytest.mark.parametrize(
    "value",
    [
        None,
        2**127 + 1,
        math.inf,
        (),
        [1, [2.5, (3, "x")]],
        {1: "int", "1": "text", (2, 3): None, None: ()},
        {"__tuple__": [1], "__tensor__": {"__pairs__": 2}},
        OrderedDict(b=1, a=2),
    ],
)
def test_plain_data_is_restored_with_equal_types(value):
    back = through_json(value)
    assert back == value
    assert repr(back) == repr(dict(value) if isinstance(value, OrderedDict) else value)


def test_nested_tensors_are_restored_bit_identically():
    value = {
        "a": {"b": tensor([math.nan, -0.0])},
        "a/b": tensor(3, dtype=torch.int64),
        "list": [(tensor([1.5], dtype=torch.bfloat16), {4: torch.zeros(0, 2)})],
    }
    back = through_json(value)
    assert back["a"]["b"].view(torch.int32).tolist() == value["a"]["b"].view(torch.int32).tolist()
    assert torch.equal(back["a/b"], value["a/b"])
    assert back["a/b"].shape == ()
    assert torch.equal(back["list"][0][0], value["list"][0][0])
    assert back["list"][0][1][4].shape == (0, 2)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"x": [1, {2}]}, r"state/x/1 must be a tensor, .* got builtins\.set"),
        ({"x": np.zeros(2)}, r"state/x must be .* got numpy\.ndarray"),
        (np.random.default_rng(0), r"state must be .* got numpy\.random"),
    ],
)
def test_unsupported_value_error_names_its_location(value, message):
    with pytest.raises(CheckpointError, match=message):
        split_tensors(value)
