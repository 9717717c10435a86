"""One embedded model for the tests of single models."""

import pytest

from srl_envs import registry


@pytest.fixture(scope="session")
def tiny_folder():
    """The embedded model of the two-player game; documented examples build the same."""
    from srl_agents.llm import tiny

    return str(tiny.folder(lambda: registry.make("coop_compete_pair_v0", max_cycles=8)))


@pytest.fixture(scope="module")
def one_thread():
    """Of torch's: models this small lose more to threads that wait for each other."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def opened(tiny_folder):
    """Opens a manager of the embedded model."""
    from core_srl import LLMConfig, SharedLLMManager

    def open_one(**settings):
        return SharedLLMManager(LLMConfig(model_name=tiny_folder, device="cpu", **settings))

    return open_one
