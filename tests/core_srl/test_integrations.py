"""Documented names of verl and AReaL without these packages, and limits on key-value caches."""

import asyncio
import json
import sys

import pytest

from core_srl import (
    AReaLVERLBridge,
    VERLTrainer,
    create_areal_integration,
    create_areal_verl_bridge,
    create_kv_cache_manager,
    create_qwen3_manager,
    create_verl_trainer,
)
from core_srl.integrations import KVCacheManager
from srl_extensions.bridges.focal_game import FocalGame, game_of
from srl_train.errors import ConfigError, TrainingError

GAME = FocalGame("coop_compete_pair_v0", "agent_0", {"agent_1": "tit_for_tat"})


@pytest.fixture
def without(monkeypatch):
    """Has a package be missing, whether it is installed or not."""
    return lambda name: monkeypatch.setitem(sys.modules, name, None)


def test_verls_command_and_rows(tmp_path):
    trainer = VERLTrainer("a/model", rollout_size=32, mini_batch_size=16, learning_rate=1e-6)
    command = trainer.prepare([GAME], range(20), tmp_path, {"trainer.total_epochs": 2})
    assert command[1:3] == ["-m", "verl.trainer.main_ppo"]
    assert {
        "actor_rollout_ref.model.path=a/model",
        "data.train_batch_size=32",
        "actor_rollout_ref.actor.ppo_mini_batch_size=16",
        "actor_rollout_ref.actor.ppo_epochs=4",
        "actor_rollout_ref.actor.optim.lr=1e-06",
        f"data.train_files={tmp_path}/train.jsonl",
        "trainer.total_epochs=2",
    } <= set(command)
    seeds = {
        name: [
            game_of(json.loads(row))[1]
            for row in (tmp_path / name).read_text(encoding="utf-8").splitlines()
        ]
        for name in ("val.jsonl", "train.jsonl")
    }
    assert seeds == {"val.jsonl": [0, 1], "train.jsonl": [*range(2, 20)]}


def test_training_with_verl_says_what_it_needs(tmp_path, without):
    without("verl")
    with pytest.raises(ImportError, match=r'needs verl: pip install "core-srl\[verl\]"'):
        asyncio.run(create_verl_trainer("a/model").train([GAME], range(20), tmp_path))
    assert not [*tmp_path.iterdir()], "nothing is written for a training that cannot begin"


def test_verl_that_fails_is_an_error(tmp_path, monkeypatch):
    package = tmp_path / "verl" / "trainer"
    package.mkdir(parents=True)
    (package / "main_ppo.py").write_text("raise SystemExit(3)", encoding="utf-8")
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(TrainingError, match="verl ended with status 3"):
        asyncio.run(VERLTrainer("a/model").train([GAME], range(20), tmp_path / "run"))


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: VERLTrainer("a/model", rollout_size=0), "rollout_size"),
        (lambda: VERLTrainer("a/model", ppo_epochs=1.5), "ppo_epochs"),
        (lambda: VERLTrainer("a/model", 8, 16), "mini_batch_size"),
        (lambda: VERLTrainer("a/model", learning_rate=0), "learning_rate"),
        (lambda: VERLTrainer(""), "model_name"),
        (lambda: KVCacheManager(max_cache_size=0), "max_cache_size"),
        (lambda: KVCacheManager(max_memory_gb=0), "max_memory_gb"),
        (lambda: KVCacheManager(cache_policy="lfu"), "cache_policy"),
        (lambda: KVCacheManager().manage("http://localhost:8000"), "no key-value cache"),
    ],
)
def test_a_wrong_argument_is_named(make, named):
    with pytest.raises(ValueError, match=named):
        make()


def test_areal_says_what_it_needs(without):
    without("areal")
    integration = create_areal_integration()
    sys.modules.pop("srl_extensions.bridges.areal", None)
    with pytest.raises(ImportError, match=r'needs areal: pip install "core-srl\[areal\]"'):
        integration.workflow(None, None)
    with pytest.raises(ImportError, match=r'needs areal: pip install "core-srl\[areal\]"'):
        integration.get_metrics()


def test_the_bridge_trains_on_prompts_and_goes_on(tiny_folder, tmp_path):
    bridge = AReaLVERLBridge(
        tiny_folder,
        reward_function=lambda answer, context: float("compete" in answer),
        run_dir=tmp_path,
        settings={
            "models.sampling.max_new_tokens": 4,
            "models.device": "cpu",
            "algorithm.learning_rate": 3e-3,
        },
    )
    assert bridge.get_training_summary() == {}
    found = asyncio.run(bridge.integrated_training_loop(["What do you choose?", "And now?"], 2))
    metrics = found["training_metrics"]
    assert metrics["steps"] == [1, 2]
    assert all(0 <= reward <= 1 for reward in metrics["rewards"])
    assert all(stats["misses"] > 0 for stats in metrics["cache_stats"])
    assert found["final_stats"]["total_steps"] == 2
    assert found["final_stats"]["avg_reward"] == pytest.approx(sum(metrics["rewards"]) / 2)
    assert bridge.model_name == str(tmp_path / "loop_1" / "models" / "model_0")
    assert bridge.get_training_summary()["total_steps"] == 2
    asyncio.run(bridge.integrated_training_loop(["Well?"], 1))
    assert (tmp_path / "loop_2" / "models" / "model_0").is_dir()


def test_the_bridge_wants_a_reward_function_and_prompts(tmp_path):
    with pytest.raises(ConfigError, match="reward_function"):
        asyncio.run(create_areal_verl_bridge(run_dir=tmp_path).integrated_training_loop(["a"]))
    bridge = create_areal_verl_bridge(reward_function=len, run_dir=tmp_path)
    with pytest.raises(ConfigError, match="prompts"):
        asyncio.run(bridge.integrated_training_loop("one text"))


# Key-value caches.


@pytest.fixture
def model(tiny_folder):
    manager = create_qwen3_manager(tiny_folder, device="cpu")
    for node in ("red", "blue"):
        manager.register_node(node, {"max_new_tokens": 4})
    return manager


def test_what_conversations_keep_is_counted_and_cleared(model):
    cache = create_kv_cache_manager()
    cache.manage(model)
    cache.manage(model.backend)  # the same one
    first = model.generate_for_node("red", "Round 1 of 3. What do you choose?")
    told = cache.get_stats()
    assert (told["conversations"], told["hits"], told["evictions"]) == (1, 0, 0)
    assert told["misses"] == first.prompt_tokens
    assert told["size"] > 0 and told["memory_usage"] > told["size"]
    model.generate_for_node("red", "Round 2 of 3. What do you choose?")
    again = cache.get_stats()
    assert again["hits"] >= first.prompt_tokens
    assert again["hit_rate"] == again["hits"] / (again["hits"] + again["misses"])
    cache.clear()
    assert (cache.get_stats()["size"], cache.get_stats()["conversations"]) == (0, 0)
    model.generate_for_node("red", "Round 3 of 3. What do you choose?")
    assert cache.get_stats()["hits"] == again["hits"], "it was all read again"


def test_no_more_is_kept_than_asked_for(model):
    cache = create_kv_cache_manager(max_cache_size=100)
    cache.manage(model)
    for turn in range(1, 4):
        for node in ("red", "blue"):
            model.generate_for_node(node, f"Round {turn} of 3. What do you choose?")
            assert cache.get_stats()["size"] <= 100
    assert cache.get_stats()["evictions"]


def test_bytes_are_a_bound_too(model):
    integration = create_areal_integration(max_memory_gb=1e-9)
    integration.get_cache().manage(model)
    model.generate_for_node("red", "Round 1 of 3. What do you choose?")
    assert integration.get_stats()["memory_usage"] == 0
    assert integration.get_stats()["evictions"] == 1
