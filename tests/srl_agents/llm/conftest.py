"""Fixtures: the embedded model and an environment of four agents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_envs import registry
from tests.servers.chat_server import chat_server


def make_env() -> Any:
    return registry.make("coop_compete_v0", num_agents=4, max_cycles=8)


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def tiny_folder(tiny_folder: str) -> Path:
    return Path(tiny_folder)


@pytest.fixture
def server() -> Iterator[Any]:
    with chat_server() as running:
        yield running


@pytest.fixture
def backend(tiny_folder: Path) -> HuggingFaceBackend:
    """Return a new backend, because tests change weights and modes."""
    return HuggingFaceBackend.load(tiny_folder, device="cpu", name="tiny")


@pytest.fixture(scope="session")
def tokenizer_of(tiny_folder: Path) -> Callable[..., Any]:
    """Return a function that loads a tokenizer with another chat template and control tokens."""

    def load(template: str | None = None, control: tuple[str, ...] = (), eos: str | None = None):
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
        if control:
            tokenizer.add_special_tokens({"extra_special_tokens": list(control)})
        if eos:
            tokenizer.eos_token = eos
        if template is not None:
            tokenizer.chat_template = template
        return tokenizer

    return load
