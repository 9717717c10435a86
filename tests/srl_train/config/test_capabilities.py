"""All pairs of parts of a configuration are refused or accepted as the capability table says."""

from pathlib import Path

import pytest

from srl_train.config import capabilities
from srl_train.config.capabilities import FACTS, OBJECTS, PARTS, PROCESSES
from srl_train.config.yaml_file import from_tree
from srl_train.errors import ConfigError

SERVERS = {"backend.name": "vllm", "backend.managed": {}}
PPO = {"algorithm.name": "ppo"}
SETTINGS = {
    "algorithm.name ppo": PPO,
    "sampling with top_p or top_k": {"models.sampling.top_p": 0.9},
    "algorithm.trl off_policy_mask_threshold": {"algorithm.trl.off_policy_mask_threshold": 0.1},
    "algorithm.value_normalization running": {**PPO, "algorithm.value_normalization": "running"},
    "algorithm.beta": {"algorithm.beta": 0.1},
    "algorithm.reference moving": {"algorithm.beta": 0.1, "algorithm.reference": "moving"},
    "credit.name": {"credit.name": "role"},
    "engine.name ray": {"engine.name": "ray"},
    "engine.play_ahead": {"engine.play_ahead": True},
    "engine.play_ahead with served models": {"engine.play_ahead": True, **SERVERS},
    "backend with served models": SERVERS,
    "backend with served models, without models.adapters": {**SERVERS, "models.adapters": None},
    "parallel fsdp": {"parallel": "fsdp"},
    "models.adapters": {"models.adapters": {}},
    "models.context": {"models.context": "window"},
    "models.quantization": {"models.quantization": "nf4", "models.adapters": {}},
    "models.frozen_models behind an API": {
        "models.frozen_models.coach": "openai:m",
        "seats.agent_2": "coach",
    },
    "opponent_pools": {"opponent_pools.past.keep": 2, "seats.agent_3": "past"},
    "opponent_pools.draw_each group": {
        "opponent_pools.past.draw_each": "group",
        "seats.agent_3": "past",
    },
    "updates.sample_budget": {
        "updates.strategy": "asynchronous",
        "updates.sample_budget": {"model_0": 8},
    },
    "updates.strategy that averages": {"updates.strategy": "federated"},
    "sft": {"sft": {}},
    "dpo": {"dpo": {}},
    "dpo with models.adapters": {"dpo": {}, "models.adapters": {}},
}
"""Part to the settings, by dotted name, that choose it."""
ONE_OF_EACH = [
    ("models.context", "parallel fsdp"),
    ("parallel fsdp", "models.adapters"),
    ("backend with served models", "models.quantization"),
    ("algorithm.name ppo", "credit.name"),
]
"""Pairs that do not work together, independent of the table."""


def merged(one, other):
    """Return the settings of both parts, or None if they set one name to different values."""
    if any(one[name] != other[name] for name in one.keys() & other.keys()):
        return None
    return {**one, **other}


def unchecked(settings, monkeypatch):
    """Return the configuration without a check of its combinations."""
    with monkeypatch.context() as patch:
        patch.setattr(capabilities, "check", lambda *parts: None)
        return from_tree({}, settings)


def test_table_of_facts_is_complete():
    assert [part.setting for part in PARTS] == list(SETTINGS)
    every = [*PARTS, OBJECTS, PROCESSES]
    assert {fact for part in every for fact in part.facts.split()} == FACTS.keys()
    assert {fact for part in every for fact in part.excludes.split()} <= FACTS.keys()


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.setting)
def test_pairs_are_refused_according_to_the_table(part, monkeypatch):
    combined = 0
    before = [*SETTINGS][: PARTS.index(part) + 1]
    for name in before:
        both = merged(SETTINGS[part.setting], SETTINGS[name])
        if both is None:
            continue
        config = unchecked(both, monkeypatch)
        chosen = [other for other in PARTS if other.is_chosen(config)]
        assert {part.setting, name} <= {other.setting for other in chosen}
        combined += 1
        conflict = next(capabilities.conflicts(chosen), None)
        if conflict is None:
            from_tree({}, both)
            continue
        one, other, fact = conflict
        with pytest.raises(ConfigError) as error:
            from_tree({}, both)
        message = str(error.value)
        assert message.startswith(f"{one.setting}: ") and other.setting in message
        assert FACTS[fact] in message and "\n" not in message
    assert combined > len(before) // 2


@pytest.mark.parametrize("extra", [OBJECTS, PROCESSES], ids=lambda part: part.setting)
def test_parts_outside_the_configuration_are_checked(extra, monkeypatch):
    for settings in SETTINGS.values():
        config = unchecked(settings, monkeypatch)
        chosen = [extra, *(part for part in PARTS if part.is_chosen(config))]
        if not any(capabilities.conflicts(chosen)):
            capabilities.check(config, extra)
        else:
            with pytest.raises(ConfigError):
                capabilities.check(config, extra)


@pytest.mark.parametrize(("one", "other"), ONE_OF_EACH)
def test_known_pairs_are_refused(one, other):
    with pytest.raises(ConfigError):
        from_tree({}, merged(SETTINGS[one], SETTINGS[other]))


def test_documentation_contains_the_current_table():
    page = Path(capabilities.__file__).parents[2] / "docs/training/combinations.md"
    rows = ["| setting | does not work with | because |", "|---|---|---|"]
    rows += [
        f"| `{one.setting}` | `{other.setting}` | {FACTS[fact]} |"
        for one, other, fact in capabilities.conflicts([*PARTS, PROCESSES, OBJECTS])
    ]
    table = "\n".join(rows) + "\n"
    assert table in page.read_text(encoding="utf-8"), f"put this table into {page}:\n{table}"
