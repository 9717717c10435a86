import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.llm.backends.token_backend import TokenTrie, answer_trie

END = 99


def written(tree: TokenTrie) -> list[tuple[int, ...]]:
    """Every token sequence that the tree lets through."""
    if not tree.allowed:
        return [()]
    return [(t, *rest) for t in tree.allowed for rest in written(tree.children[t])]


@given(st.sets(st.lists(st.integers(0, 3), min_size=1, max_size=4).map(tuple), min_size=1))
def test_exactly_the_legal_answers_can_be_written(answers):
    tree = answer_trie(sorted(answers), END)
    assert sorted(written(tree)) == sorted((*answer, END) for answer in answers)


@pytest.mark.parametrize("answers", [[], [[1], []], [[1], [1]]])
def test_answers_that_cannot_be_told_apart_are_refused(answers):
    with pytest.raises(ValueError, match="legal answer"):
        answer_trie(answers, END)
