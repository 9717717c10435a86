"""What all tests share."""

import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def embedded_models(tmp_path_factory):
    """Build each embedded model once per session, and outside the user's own cache."""
    base = tmp_path_factory.getbasetemp()
    # Under pytest-xdist a worker's own folder is one of several in the session's.
    session = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CORE_SRL_CACHE", str(session / "cache"))
        yield
