"""Chat templates for models whose tokenizer has none, as base models: ours by name, or a file."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from srl_agents.errors import BackendError
from srl_envs.untrusted import read_bytes

TEMPLATES = {
    # Plain paragraphs: for a model that has read texts and no conversations.
    "plain": (
        "{{ bos_token }}"
        "{% for m in messages %}"
        "{% if m['role'] == 'assistant' %}Answer:\n{{ m['content'] }}{{ eos_token }}\n\n"
        "{% elif m['role'] == 'system' %}{{ m['content'] }}\n\n"
        "{% else %}{{ m['content'] }}\n{% endif %}"
        "{% endfor %}"
        "{% if add_generation_prompt %}Answer:\n{% endif %}"
    ),
    # Qwen's and others', in which messages are told apart by control tokens.
    "chatml": (
        "{% for m in messages %}"
        "<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
        "{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    ),
    # Gemma's, which has no system role: what it would say opens the first user's message.
    "gemma": (
        "{{ bos_token }}"
        "{% for m in messages %}"
        "{% if m['role'] == 'system' %}"
        "{{ raise_exception('System role not supported') }}"
        "{% endif %}"
        "<start_of_turn>{{ 'model' if m['role'] == 'assistant' else m['role'] }}\n"
        "{{ m['content'] }}<end_of_turn>\n"
        "{% endfor %}"
        "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
    ),
}
"""Name -> the template, in Jinja."""

log = logging.getLogger(__name__)


def template_of(name: str) -> str:
    """The template of that name, or in the file of that path.

    Raises BackendError for what is neither.
    """
    if name in TEMPLATES:
        return TEMPLATES[name]
    try:
        text = read_bytes(Path(name).expanduser()).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "is no text"
        raise BackendError(
            f"the chat template {name!r} is none of ours ({', '.join(TEMPLATES)}), and no file "
            f"that can be read ({reason})"
        ) from error
    if not text.strip():
        raise BackendError(f"the chat template {name} is an empty file")
    return text


def fill_in(tokenizer: Any, name: str | None) -> None:
    """Give the tokenizer the template, where it has none; one of its own stays.

    Whatever saves the tokenizer writes the template beside it. Raises BackendError as
    `template_of`.
    """
    if name is None:
        return
    template, own = template_of(name), tokenizer.chat_template
    if not own:
        tokenizer.chat_template = template
    elif not isinstance(own, str) or own.strip() != template.strip():  # some have several by name
        log.warning(
            "%s: the tokenizer has a chat template of its own, which is kept in place of %r",
            getattr(tokenizer, "name_or_path", "") or "a model", name,
        )  # fmt: skip
