import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.llm.backends.token_backend import TokenTrie, answer_trie

END = 99


def written(tree: TokenTrie) -> list[tuple[int, ...]]:
    """Return all token sequences that the trie allows."""
    if not tree.allowed:
        return [()]
    return [(t, *rest) for t in tree.allowed for rest in written(tree.children[t])]


@given(st.sets(st.lists(st.integers(0, 3), min_size=1, max_size=4).map(tuple), min_size=1))
def test_the_trie_allows_exactly_the_legal_answers(answers):
    tree = answer_trie(sorted(answers), END)
    assert sorted(written(tree)) == sorted((*answer, END) for answer in answers)


@pytest.mark.parametrize("answers", [[], [[1], []], [[1], [1]]])
def test_empty_and_equal_answers_are_rejected(answers):
    with pytest.raises(ValueError, match="legal answer"):
        answer_trie(answers, END)
