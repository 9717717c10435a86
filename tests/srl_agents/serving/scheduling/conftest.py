"""Two servers that take their time."""

import pytest

from tests.srl_agents.serving.scheduling.slow_servers import Server


@pytest.fixture
def servers():
    return [Server("a"), Server("b")]
