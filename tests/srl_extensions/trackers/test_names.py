import math

import pytest

from srl_extensions.trackers import names
from tests.srl_extensions.trackers.recorded import EVALUATION, round_row, stage_row

SECRET = "sk-1234567890"


def test_a_round_by_model_and_by_agent():
    found = names.of_round(round_row(4))
    assert math.isnan(found.pop("train/model_0/loss"))
    assert found == {
        "train/round": 4, "train/seconds/rollout": 1.5, "train/seconds/train": 0.5,
        "train/mode/balance": 0.25, "train/episodes": 4, "train/reward": 0.5,
        "train/model_0/reward": 0.5, "train/model_0/updated": 1,
        "train/model_0/staleness/mean": 0.5, "train/model_0/staleness/max": 1,
        "train/agents/red_1/reward": 0.25, "train/agents/red_2/reward": 0.75,
        "train/model_0/stale_by_agent/red_1": 0, "train/model_0/stale_by_agent/red_2": 3,
        "train/model_0/never_asked_by_agent/red_1": 0,
        "train/model_0/never_asked_by_agent/red_2": 0,
        "train/environments/a_maze/reward": -1, "train/environments/a_maze/episodes": 4,
        "train/wins/red_1/games": 2, "train/wins/red_2/games": 1,
    }  # fmt: skip


def test_a_pass_and_evaluations():
    assert names.of_pass(stage_row(1)) == {
        "dpo/pass": 1, "dpo/seconds": 2.0, "dpo/model_0/samples": 3, "dpo/model_0/loss": 0.375,
        "dpo/model_0/rewards/chosen": 0.1,
    }  # fmt: skip
    reward = {"episodes": 3, "reward": 0.5, "model_0/reward": 0.5, "agents/red_1/reward": 0.5}
    for when, section in {
        "before": "eval", "after": "eval", "after_sft": "eval/after_sft"
    }.items():  # fmt: skip
        found = names.of_evaluation(when, EVALUATION)
        assert found == {f"{section}/{name}": value for name, value in reward.items()}


@pytest.mark.parametrize(
    ("name", "segment"),
    [
        ("red_0", "red_0"),
        ("red 0", "red_0"),
        ("..", "_.."),
        ("", "_"),
        ("\u202e<b>", "_b_"),
        ("grün-1.5", "grün-1.5"),
        ("x" * 300, "x" * 80),
    ],
)
def test_segments_are_valid_in_all_libraries(name, segment):
    assert names.segment(name) == segment


def test_settings_by_dotted_names_without_secrets():
    tree = {
        "seed": 3, "constrained": True, "seats": {}, "base": ["a", "b"], "note": None,
        "options": {"api_key": "sk-1", "token": "", "max_new_tokens": 4, "password": "p w",
                    "url": "https://me:pw@host/x?access_token=abc&q=1", "a b": "y" * 2000},
    }  # fmt: skip
    found = names.of_settings(tree)
    assert len(found.pop("options.a_b")) == names.LONGEST_SETTING
    assert found == {
        "seed": 3, "constrained": True, "seats": "{}", "base": "['a', 'b']", "note": "None",
        "options.api_key": "(left out)", "options.token": "", "options.max_new_tokens": 4,
        "options.password": "(left out)",
        "options.url": "https://...@host/x?access_token=...&q=1",
    }  # fmt: skip


@pytest.mark.parametrize(
    "tree",
    [
        {"several": [{"options": {"private_key": SECRET}}]}, {"own": {"hfToken": SECRET}},
        {"own": {"url": f"http://host/?key={SECRET}"}}, {"own": [f"http://me:{SECRET}@host"]},
    ],
)  # fmt: skip
def test_secrets_at_any_depth_are_removed_from_settings(tree):
    assert SECRET not in str(names.of_settings(tree))


@pytest.mark.parametrize(
    "words",
    [f"Authorization: Bearer {SECRET}", f"api_key: {SECRET}", f"{{'token': '{SECRET}'}}",
     f'{{"api_key":"{SECRET}"}}', f"HF_TOKEN={SECRET}&more", f"password: {SECRET}"],
)  # fmt: skip
def test_secrets_are_removed_from_error_messages(words):
    assert SECRET not in names.without_secrets(words)
    assert names.without_secrets("KeyError: 'reward'") == "KeyError: 'reward'"
