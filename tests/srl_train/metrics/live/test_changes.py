"""Changes make the new document of the old one, and hold little more than what is new."""

import copy

from hypothesis import given
from hypothesis import strategies as st

from srl_train.metrics.live.changes import changes

values = st.recursive(
    st.none() | st.integers(0, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("xyz"), inner),
    max_leaves=12,
)


def applied(document, found):
    """What page_assets/live.js does."""
    document = copy.deepcopy(document)
    for path, kept, value in found:
        place, above = document, None
        for key in path:
            above, place = place, place[key]
        if kept is not None:
            place[kept:] = value
        elif above is None:
            document = value
        else:
            above[path[-1]] = value
    return document


@given(values, values)
def test_changes_lead_from_the_one_to_the_other(old, new):
    assert applied(old, changes(old, new)) == new


@given(values)
def test_nothing_changes_nothing(value):
    assert changes(value, copy.deepcopy(value)) == []


def test_of_a_curve_only_what_is_new_is_told():
    old = {"lines": [{"x": [0, 1, 2], "y": [0.5, None, 0.75], "label": "raw"}]}
    new = {"lines": [{"x": [0, 1, 2, 3], "y": [0.5, None, 0.7, 0.8], "label": "raw"}]}
    assert changes(old, new) == [
        (["lines", 0, "x"], 3, [3]),
        (["lines", 0, "y"], 2, [0.7, 0.8]),
    ]
