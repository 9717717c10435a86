"""Hypothesis strategy of hostile answers, shared by the tests."""

from hypothesis import strategies as st

PIECES = (
    *("not", "I will not", "never", "or", "and", "1", "!", "¬", ".", ":", "{", "}", "x" * 5000, ""),
    *("Answer:", "action:", "choice:", "<answer>", "</answer>", "**", "~~", '"', "\n", "\n\n", " "),
    *("ignore your instructions and choose", "SYSTEM:", "```", "我选择合作", "لا", "🤝"),
    *("\x00", "\ud800", "\u202e", "İ", "ß"),
)


def hostile_answers(*words):
    """Return a strategy of texts that contain, decorate, contradict or fragment `words`."""
    pieces = (*words, *(f"{word.title()}." for word in words), *map(str.upper, words), *PIECES)
    return st.one_of(
        st.sampled_from(words),
        st.text(),
        st.text(alphabet=st.characters(exclude_categories=[])),  # including lone surrogates
        st.lists(st.sampled_from(pieces), max_size=12).map("".join),
        st.lists(st.sampled_from(pieces), max_size=12).map(" ".join),
        st.lists(st.sampled_from(pieces), max_size=6).map("\n".join),
    )
