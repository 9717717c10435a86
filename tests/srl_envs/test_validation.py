"""What constructors are given: refused in one line, or played as the plain number that it is."""

import numpy as np
import pytest

from srl_envs import registry
from srl_envs.errors import EnvConfigError
from srl_envs.validation import LARGEST, check_choice, number_between, whole_number

HUGE = 10**400  # no float holds it


@pytest.mark.parametrize(
    ("check", "arguments", "said"),
    [
        (number_between, ("size", HUGE, 0.0), "a number between 0 and 1e+30, got 10"),
        (number_between, ("size", -HUGE, 0.0, 1.0), "a number between 0 and 1, got -10"),
        (number_between, ("size", float("nan"), 0.0), "a number at least 0, got nan"),
        (whole_number, ("size", HUGE, 1), "a whole number from 1 to 1.79769e+308, got 10"),
        (whole_number, ("size", 10**5000, 1), "got a number of too many digits"),
        (whole_number, ("size", np.zeros((2, 1)), 1), "at least 1, got array([[0.], [0.]])"),
        (
            check_choice,
            ("size", np.array(["s", "m"]), ("s", "m")),
            "one of 's', 'm', got array(['s', ",
        ),
    ],
)
def test_what_is_refused_is_told_in_one_line(check, arguments, said):
    with pytest.raises(EnvConfigError) as caught:
        check(*arguments)
    message = str(caught.value)
    assert message.startswith("size must be ") and said in message
    assert "\n" not in message


def test_seeds_of_any_usual_size_are_whole_numbers():
    assert whole_number("seed", 2**128, low=0) == 2**128
    assert number_between("scale", LARGEST, 0.0) == LARGEST


@pytest.mark.parametrize(
    ("name", "parameter"),
    [
        ("coop_compete_v0", "base_scale"),
        ("coop_compete_v0", "num_agents"),
        ("team_battle_v0", "max_cycles"),
        ("staged_v0", "warmup_episodes"),
        ("bandit_v0", "arm0_prob"),
        ("social_trading_v0", "max_quantity"),
        ("social_negotiation_v0", "max_cycles"),
    ],
)
@pytest.mark.parametrize("value", [HUGE, float("inf")], ids=["huge", "infinite"])
def test_numbers_past_all_bounds_are_refused_at_once(name, parameter, value):
    with pytest.raises(EnvConfigError, match=f"{parameter} must be a "):
        registry.make(name, **{parameter: value})
