"""One embedded model for the tests of single models."""

import pytest


@pytest.fixture(scope="module")
def one_thread():
    """Use one torch thread, because more threads slow down small models."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def opened(tiny_folder):
    """Return a function that opens a manager of the embedded model."""
    from core_srl import LLMConfig, SharedLLMManager

    def open_one(**settings):
        return SharedLLMManager(LLMConfig(model_name=tiny_folder, device="cpu", **settings))

    return open_one
