import copy
import logging

import pytest

from srl_agents.errors import BackendError
from srl_agents.llm.chat_format import TEMPLATES, ChatFormat, ChatTurn, fill_in, template_of


@pytest.fixture
def bare(backend):
    """Return a tokenizer without a chat template."""
    tokenizer = copy.deepcopy(backend.tokenizer)
    tokenizer.chat_template = None
    return tokenizer


def test_without_a_template_the_error_names_the_setting(bare):
    with pytest.raises(BackendError, match=r"models\.chat_template to plain, chatml, gemma or a"):
        ChatFormat(bare)


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_appended_tokens_equal_the_rendered_template(bare, name):
    fill_in(bare, name)
    chat = ChatFormat(bare)
    [first] = chat.prompts([ChatTurn("Round 1.", rules="Choose.")])
    answer = (*chat.answer("compete"), chat.end_of_turn)
    [more] = chat.prompts([ChatTurn("Round 2.", last=chat.end_of_turn)])
    system = [] if name == "gemma" else [("system", "Choose.")]
    words = "Choose.\n\nRound 1." if name == "gemma" else "Round 1."
    whole = chat.render([*system, ("user", words), ("assistant", "compete"), ("user", "Round 2.")])
    said = [*first, *answer, *more]
    if name == "plain":  # the one whose end of turn is a token of this tokenizer
        assert bare.decode(said) == whole
    assert (
        list(first)
        == bare(chat.render([*system, ("user", words)]), add_special_tokens=False)["input_ids"]
    )
    assert "Round 2." in bare.decode(more)


def test_the_tokenizers_own_template_is_kept_with_a_warning(backend, caplog):
    own = backend.tokenizer.chat_template
    with caplog.at_level(logging.WARNING):
        fill_in(backend.tokenizer, None)
        assert not caplog.records
        fill_in(backend.tokenizer, "plain")
    assert backend.tokenizer.chat_template == own
    assert "the tokenizer's chat template is used" in caplog.text


def test_a_template_may_be_a_file(bare, tmp_path):
    file = tmp_path / "own.jinja"
    file.write_text(TEMPLATES["plain"] + "\n")
    fill_in(bare, str(file))
    assert ChatFormat(bare).render([("user", "hello")]).strip().endswith("hello\nAnswer:")


def test_an_unknown_template_is_rejected(tmp_path):
    with pytest.raises(BackendError, match="a readable file, got 'plan'"):
        template_of("plan")
    with pytest.raises(BackendError, match="or a readable file, got"):
        template_of(str(tmp_path))
    (tmp_path / "empty").write_text(" \n")
    with pytest.raises(BackendError, match="empty file"):
        template_of(str(tmp_path / "empty"))
