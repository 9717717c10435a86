"""What all tests share."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def embedded_models(tmp_path_factory):
    """Build each embedded model once per session, and outside the user's own cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CORE_SRL_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
        yield
