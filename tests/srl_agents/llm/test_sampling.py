import pytest

from srl_agents.llm.sampling import Sampling


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_k", -1),
        ("max_new_tokens", 0),
    ],
)
def test_a_wrong_setting_is_named_with_its_value(field, value):
    with pytest.raises(ValueError, match=f"{field} is {value}"):
        Sampling(**{field: value})


def test_the_limits_themselves_are_allowed():
    Sampling(temperature=0.0, top_p=1.0, top_k=0, max_new_tokens=1)
