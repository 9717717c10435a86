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
def test_invalid_settings_are_rejected(field, value):
    with pytest.raises(ValueError, match=f"{field} must be .* got {value}"):
        Sampling(**{field: value})
