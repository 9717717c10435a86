"""How models are loaded, as a configuration says."""

from unittest.mock import Mock

import pytest
from transformers import AutoTokenizer

from srl_agents.llm.backends.huggingface import backend as huggingface
from srl_agents.llm.backends.huggingface import sources
from srl_train.engine.assemble import assemble

CHATTY = "{% if add_generation_prompt and not brief %}{{ 'at length: ' }}{% endif %}"


@pytest.mark.parametrize("adapters", [None, {"rank": 2}])
def test_attention_and_what_templates_are_told_reach_every_model(
    adapters, short_run, tiny_folder, tmp_path
):
    from transformers import AutoModelForCausalLM

    base = tmp_path / "base"
    AutoModelForCausalLM.from_pretrained(tiny_folder).save_pretrained(base)
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    tokenizer.chat_template += CHATTY
    tokenizer.save_pretrained(base)
    run = assemble(
        short_run(
            models__base=str(base),
            models__adapters=adapters,
            models__frozen_models={"old": str(base)},
            seats={"agent_1": "old", "agent_0": "model_0"},
            models__count=1,
            models__attn_implementation="eager",
            models__chat_template_kwargs={"brief": True},
        )
    )
    for backend in run.players.backends.values():
        assert backend.model.config._attn_implementation == "eager"
        assert "at length" not in backend.chat.render([("user", "hello")])


def test_a_revision_is_asked_of_the_hub_and_folders_may_have_such_names(tmp_path, monkeypatch):
    asked = []

    def from_pretrained(name, **how):
        asked.append((name, how.get("revision")))
        raise OSError("asked enough")

    monkeypatch.setattr(huggingface.AutoTokenizer, "from_pretrained", from_pretrained)
    monkeypatch.setattr(sources, "get_session", Mock)  # the hub is there
    folder = tmp_path / "run@home"
    folder.mkdir()
    for name in ("me/model@v1.0", "me/model", str(folder)):
        with pytest.raises(huggingface.BackendError):
            huggingface.HuggingFaceBackend.load(name, device="cpu")
    assert asked == [("me/model", "v1.0"), ("me/model", None), (str(folder), None)]
