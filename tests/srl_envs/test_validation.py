"""Checks of arguments: errors of one line, and plain numbers as results."""

import numpy as np
import pytest

from srl_envs.errors import EnvConfigError
from srl_envs.validation import LARGEST, check_choice, number_between, whole_number

HUGE = 10**400  # no float holds it


@pytest.mark.parametrize(
    ("check", "arguments", "said"),
    [
        (number_between, ("size", HUGE, 0.0), "a number between 0 and 1e+30, got 10"),
        (number_between, ("size", -HUGE, 0.0, 1.0), "a number between 0 and 1, got -10"),
        (number_between, ("size", float("nan"), 0.0), "a number between 0 and 1e+30, got nan"),
        (whole_number, ("size", HUGE, 1), "a whole number of at least 1, got 10"),
        (whole_number, ("size", 10**5000, 1), "got a number of too many digits"),
        (whole_number, ("size", np.zeros((2, 1)), 1), "at least 1, got array([[0.], [0.]])"),
        (
            check_choice,
            ("size", np.array(["s", "m"]), ("s", "m")),
            "one of 's', 'm', got array(['s', ",
        ),
    ],
)
def test_invalid_values_raise_one_line(check, arguments, said):
    with pytest.raises(EnvConfigError) as caught:
        check(*arguments)
    message = str(caught.value)
    assert message.startswith("size must be ") and said in message
    assert "\n" not in message


def test_large_seeds_are_allowed():
    assert whole_number("seed", 2**128, low=0) == 2**128
    assert number_between("scale", LARGEST, 0.0) == LARGEST
