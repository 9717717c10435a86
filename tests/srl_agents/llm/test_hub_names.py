"""Hub names for which folders of this machine stand."""

import re

import pytest

from srl_agents.errors import BackendError
from srl_agents.llm.model_folders import VARIABLE, folder_for


def test_a_folder_stands_for_a_name_and_a_line_says_so(tiny_folder, monkeypatch, caplog):
    from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
    from srl_agents.llm.backends.huggingface.loading import folder_of

    monkeypatch.setenv(VARIABLE, f"nobody/one={tiny_folder}, nobody/two@main = {tiny_folder},")
    assert HuggingFaceBackend.load("nobody/one", device="cpu").model.config.hidden_size > 0
    for name in ("nobody/one@v2", "nobody/two@main"):
        assert str(folder_of(name)) == str(tiny_folder)
    assert f"nobody/one: {tiny_folder} is taken for it" in caplog.text
    assert folder_for("nobody/two") is None


@pytest.mark.parametrize("given", ["nobody/one", "=/tmp", "nobody/one="])
def test_what_is_no_list_is_told(given, monkeypatch):
    monkeypatch.setenv(VARIABLE, given)
    with pytest.raises(BackendError, match="give NAME=FOLDER, separated by commas"):
        folder_for("nobody/one")


def test_a_folder_that_is_not_there_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, f"nobody/one={tmp_path / 'nowhere'}")
    with pytest.raises(
        BackendError, match=f"no folder {tmp_path / 'nowhere'}, named for nobody/on"
    ):
        folder_for("nobody/one")


def test_a_hub_that_is_out_of_reach_is_told_at_once(monkeypatch):
    from srl_agents.llm.backends.huggingface import loading as sources
    from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend

    asked = []

    class NoNetwork:
        def head(self, url, **_):
            asked.append(url)
            raise OSError("no route to host")

    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(sources, "get_session", NoNetwork)
    with pytest.raises(BackendError) as told:
        HuggingFaceBackend.load("nobody/one@v2", device="cpu")
    said = rf"'nobody/one@v2': .* {asked[0]} cannot .* CORE_SRL_MODELS=nobody/one="
    assert re.search(said, str(told.value))
    assert len(asked) == 1
