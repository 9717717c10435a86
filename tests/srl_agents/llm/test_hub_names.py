"""Local folders for hub names (CORE_SRL_MODELS)."""

import re

import pytest

from srl_agents.errors import BackendError
from srl_agents.llm.model_folders import VARIABLE, folder_for


def test_a_folder_replaces_a_hub_name_with_a_warning(tiny_folder, monkeypatch, caplog):
    from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
    from srl_agents.llm.backends.huggingface.loading import folder_of

    monkeypatch.setenv(VARIABLE, f"nobody/one={tiny_folder}, nobody/two@main = {tiny_folder},")
    assert HuggingFaceBackend.load("nobody/one", device="cpu").model.config.hidden_size > 0
    for name in ("nobody/one@v2", "nobody/two@main"):
        assert str(folder_of(name)) == str(tiny_folder)
    assert f"nobody/one: the folder {tiny_folder} is used" in caplog.text
    assert folder_for("nobody/two") is None


@pytest.mark.parametrize("given", ["nobody/one", "=/tmp", "nobody/one="])
def test_an_invalid_list_is_rejected(given, monkeypatch):
    monkeypatch.setenv(VARIABLE, given)
    with pytest.raises(BackendError, match=f"{VARIABLE} must be NAME=FOLDER"):
        folder_for("nobody/one")


def test_a_missing_folder_is_rejected(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, f"nobody/one={tmp_path / 'nowhere'}")
    with pytest.raises(BackendError, match=r"folder of nobody/one does not exist: .*nowhere"):
        folder_for("nobody/one")


def test_an_unreachable_hub_is_reported_at_once(monkeypatch):
    from srl_agents.llm.backends.huggingface import loading as sources
    from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend

    requested = []

    class NoNetwork:
        def head(self, url, **_):
            requested.append(url)
            raise OSError("no route to host")

    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(sources, "get_session", NoNetwork)
    with pytest.raises(BackendError) as raised:
        HuggingFaceBackend.load("nobody/one@v2", device="cpu")
    message = rf"'nobody/one@v2': .* {requested[0]} cannot .* CORE_SRL_MODELS=nobody/one="
    assert re.search(message, str(raised.value))
    assert len(requested) == 1
