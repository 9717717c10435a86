"""Settings of managers: documented defaults, and nothing that nobody reads."""

from dataclasses import asdict

import pytest

from core_srl import LLMBackend, LLMConfig, UpdateStrategy
from core_srl.managers.llm_config import ANSWER_TOKENS, node_settings, overridden
from srl_agents.llm.sampling import Sampling


def test_the_documented_fields_have_the_documented_defaults():
    config = LLMConfig()
    documented = {
        "backend": LLMBackend.HUGGINGFACE,
        "model_name": "Qwen/Qwen2.5-14B-Instruct",
        "device": "auto",
        "max_length": 32768,
        "temperature": 0.7,
        "api_key": None,
        "enable_lora": False,
        "update_strategy": UpdateStrategy.ADAPTIVE,
    }
    assert asdict(config) == documented | {"port": 8001}
    assert [*asdict(config)] == [*documented, "port"], "positions are documented too"
    assert config.sampling == Sampling(temperature=0.7, max_new_tokens=ANSWER_TOKENS)


def test_the_documented_members_are_there():
    assert {one.name: one.value for one in LLMBackend} == {
        "HUGGINGFACE": "huggingface",
        "OPENAI_API": "openai_api",
        "ANTHROPIC": "anthropic",
        "VLLM": "vllm",
    }
    assert LLMConfig(backend="vllm").backend is LLMBackend.VLLM
    assert LLMConfig(update_strategy="frozen").update_strategy is UpdateStrategy.FROZEN


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"backend": "mock"}, "Unsupported LLM backend: 'mock'; give one of LLMBackend.HUGGING"),
        ({"update_strategy": "often"}, "Unsupported update strategy: 'often'"),
        ({"model_name": ""}, "model_name is ''"),
        ({"device": None}, "device is None"),
        ({"max_length": 1}, "max_length is 1: give a whole number, 2 or more"),
        ({"max_length": 8.0}, r"max_length is 8\.0"),
        ({"temperature": -1.0}, r"temperature is -1\.0"),
        ({"temperature": "hot"}, "temperature is 'hot': give a number"),
        ({"temperature": True}, "temperature is True: give a number"),
        ({"enable_lora": 1}, "enable_lora is 1"),
        ({"backend": "vllm", "port": 0}, "port is 0: give a whole number, 1 to 65535"),
        ({"api_key": "a key"}, "api_key is given, and the backend huggingface reads none"),
        ({"port": 8002}, "port is 8002, and the backend huggingface"),
        ({"backend": "openai_api", "device": "cpu"}, "device is cpu, and the backend openai_api"),
        ({"backend": "openai_api", "port": 9}, "port is 9, and the backend openai_api"),
        ({"backend": "anthropic", "enable_lora": True}, "enable_lora is True, and the backend"),
        ({"backend": "vllm", "update_strategy": "frozen"}, r"gy\.FROZEN, and the backend vllm"),
        ({"backend": "openai_api", "api_key": ""}, "api_key is no text"),
    ],
)  # fmt: skip
def test_what_is_not_allowed_is_told(settings, told):
    with pytest.raises(ValueError, match=told):
        LLMConfig(**settings)


def test_a_key_is_not_shown():
    config = LLMConfig(backend=LLMBackend.ANTHROPIC, api_key="the secret")
    assert "secret" not in repr(config)


def test_a_node_says_what_is_its_own():
    usual = Sampling(temperature=0.5, max_new_tokens=7)
    plain = node_settings("a", None, usual)
    assert (plain.sampling, plain.system_prompt, plain.adapter) == (usual, "", None)
    assert plain.seed != node_settings("b", {}, usual).seed, "equal nodes would answer alike"
    own = {"system_prompt": "Be brief.", "seed": 3, "top_k": 2, "temperature": 0, "adapter": "x"}
    settings = node_settings("a", own, usual)
    assert settings.sampling == Sampling(temperature=0, top_k=2, max_new_tokens=7)
    assert (settings.system_prompt, settings.adapter, settings.seed) == ("Be brief.", "x", 3)
    assert overridden(usual, {"max_new_tokens": 2}).max_new_tokens == 2


@pytest.mark.parametrize(
    ("own", "told"),
    [
        ({"temprature": 1.0}, "node 'a': unknown setting 'temprature': give one of system_prompt"),
        ({"top_k": 1.5}, r"node 'a': top_k is 1\.5"),
        ({"top_p": 0}, "node 'a': top_p is 0"),
        ({"system_prompt": None}, "node 'a': system_prompt is None"),
        ({"system_prompt": "\ud800"}, "node 'a': system_prompt is"),
        ({"adapter": ""}, "node 'a': adapter is ''"),
        ({"seed": -1}, "node 'a': seed is -1"),
        ("brief", "node_config is 'brief'"),
    ],
)
def test_a_node_with_wrong_settings_is_refused(own, told):
    with pytest.raises(ValueError, match=told):
        node_settings("a", own, Sampling())
