"""OpenEnv's real servers on this machine, in the environment that `make test-openenv` builds."""

import importlib.util
from pathlib import Path

import pytest

if importlib.util.find_spec("openenv") is None:
    collect_ignore_glob = ["test_*.py"]
HERE = f"{Path(__file__).parent}/"


def pytest_collection_modifyitems(items):
    for item in items:
        if str(item.path).startswith(HERE):
            item.add_marker(pytest.mark.openenv)
            # Deprecations in OpenEnv and in its server.
            for theirs in (
                "ignore::DeprecationWarning",
                "ignore::pydantic.warnings.PydanticDeprecatedSince20",
            ):
                item.add_marker(pytest.mark.filterwarnings(theirs))


@pytest.fixture(scope="module")
def url():
    """A server of two games: three agents in words, and one with a partner."""
    from srl_agents.partners import WithPartners
    from srl_agents.scripted.registry import classic_policy
    from srl_extensions.remote.openenv_server import ServedGame, create_app, in_background

    def with_partner(env):
        return WithPartners(env, {"agent_1": classic_policy("tit_for_tat", env)})

    options = {"variant": "pair", "num_agents": 2, "max_cycles": 4}
    games = {
        "three": ServedGame("coop_compete_v0", {"num_agents": 3, "max_cycles": 5}),
        "pair": ServedGame("coop_compete_v0", options, around=with_partner),
    }
    with in_background(create_app(games, max_sessions=40)) as address:
        yield address
