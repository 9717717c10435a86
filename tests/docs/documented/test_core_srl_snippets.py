"""Every program of the documents on core_srl runs unchanged, with the documented effect.

A run has one round of two episodes with the embedded model; `from core_srl import *` precedes each.
"""

import ast
import asyncio
import inspect
import json

import pytest
import torch

import core_srl
from core_srl import MODERN_MODELS, MultiModelTrainer, list_available_checkpoints
from srl_extensions.vllm.fleet import Fleet
from tests.docs.documented.blocks import blocks, runs
from tests.servers.chat_server import chat_server
from tests.servers.vllm_stub import VLLMStub

DOCUMENTS = ("core_srl_readme", "core_srl_api_reference", "core_srl_multimodel_training")
FAST = "config = MultiModelConfig(num_models=2, model_types=['llama3'])\n"
TRAINER = f"{FAST}trainer = MultiModelTrainer(config)\n"
TRAINED = f"{TRAINER}asyncio.run(trainer.train())\n"
SMALL = {
    "environment__options__max_cycles": 3,
    "rollout__group_size": 2,
    "rollout__groups_per_round": 1,
    "algorithm__minibatches": 1,
    "logging__evaluation_episodes": 0,
    "rounds": 1,
}


@pytest.fixture
def names(tiny_folder, tmp_path, monkeypatch, in_small):
    """Namespace of a program, with all models available and an empty working directory."""
    monkeypatch.chdir(tmp_path)
    folders = [f"{name}={tiny_folder}" for name in MODERN_MODELS.values()]
    monkeypatch.setenv("CORE_SRL_MODELS", ",".join(folders))
    in_small(**SMALL)
    given = {"__name__": "__main__", "shorten": lambda **more: in_small(**{**SMALL, **more})}
    with chat_server() as server:
        given["server"] = server
        run("import asyncio\nfrom core_srl import *", given)
        yield given
        for left in given.values():
            if isinstance(left, MultiModelTrainer):
                left.close()


def run(code, names):
    """Run a program that may use `await` at its top level, as in a notebook."""
    made = compile(code, "snippet", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    result = eval(made, names)
    if inspect.iscoroutine(result):
        asyncio.run(result)


def updates(trainer):
    """Type of a model -> its updates, in order."""
    summary = trainer.get_model_performance_summary().values()
    return [(entry["model_type"], entry["update_count"]) for entry in summary]


def quick_start(names):
    [final] = list_available_checkpoints()
    assert core_srl.load_checkpoint_metadata(final, "./checkpoints/multimodel")["episode"] == 2
    assert {body["model"] for body in names["server"].bodies} == {
        "gpt-4o", "claude-3-5-sonnet-20241022",
    }  # fmt: skip


def six_models(names):
    assert names["results"]["training_completed"]
    kinds = ["qwen3", "qwen_coder", "llama3"] * 2
    assert updates(names["trainer"]) == [(kind, 1) for kind in kinds]
    assert names["trainer"].run.config.models.adapters is not None
    assert len(list_available_checkpoints("./my_checkpoints")) == 1


def resumed(names):
    assert (names["trainer"].run.next_round, names["trainer"].current_episode) == (1, 2)
    assert updates(names["trainer"]) == [("llama3", 1)] * 2


def performance_of_six(names):
    counts = [entry["update_count"] for entry in names["performance"].values()]
    assert counts == [1, 1, 1, 0, 0, 0]


def went_on(names):
    assert names["metadata"]["episode"] == 2
    assert names["results"]["total_episodes"] == 4
    assert updates(names["trainer"]) == [("llama3", 2)] * 2


def eight_agents(names):
    trainer = names["trainer"]
    assert trainer.environment is names["env"] and trainer.environment.num_models == 8
    trainer.train_round()
    assert len(trainer.run.seats) == 8 and updates(trainer) == [("llama3", 1)] * 2


def heard(names):
    asyncio.run(names["trainer"].train())
    names["monitor"].stop()
    with open("logs/training.json", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    assert any("models" in row and "round" in row for row in rows), rows


def recovered(names):
    assert names["config"].batch_size == 16
    assert names["results"]["total_episodes"] == 4
    assert updates(names["trainer"]) == [("llama3", 2)] * 2


def specialized(names):
    names["config"].num_models = 4
    trainer = MultiModelTrainer(names["config"])
    asyncio.run(trainer.train())
    kinds = [("qwen_coder", 1), ("qwen_math", 1), ("openai", 0), ("claude", 0)]
    assert updates(trainer) == kinds


def cached(names):
    names["config"].kv_cache_size = 20
    trainer = MultiModelTrainer(names["config"])
    asyncio.run(trainer.train())
    assert trainer.run.config.engine.play_ahead
    assert sum(one.caches.dropped for one in trainer.run.players.backends.values()) > 0


def served(names):
    status = names["lora_scheduler"].get_system_status()
    assert [*status["servers"]] == [8001, 8002, 8003, 8004]
    assert all(entry["version"] == 0 for entry in status["adapters"].values())
    asyncio.run(names["lora_scheduler"].stop())


def paid_by_words(names):
    for turn in names["trainer"].train_round().episodes[0].turns:
        for step in turn:
            assert step.reward == names["custom_reward_fn"](step.decision.text, {})


def whole_session(names):
    results = names["results"]
    assert results["training_completed"] and results["total_episodes"] == 2
    assert len(list_available_checkpoints("./training_checkpoints")) == 1


README, REFERENCE, GUIDE = DOCUMENTS
PROGRAMS = [
    (name, title) for name in DOCUMENTS for title, code in blocks(name).items() if runs(code)
]
BEFORE = {
    (README, "Checkpoint Management"): f"{TRAINED}trainer = MultiModelTrainer(config)\n",
    (REFERENCE, "Checkpoint Management 2"): f"{TRAINED}shorten(rounds=2)",
    (REFERENCE, "Environment Configuration"): TRAINER,
    (REFERENCE, "Monitoring Setup"): TRAINER,
    (REFERENCE, "Error Recovery"): (
        f"shorten(rounds=2)\n{TRAINER}trainer.train_round()\nbreak_once(trainer)"
    ),
    **{
        (GUIDE, f"{name} Updates"): FAST
        for name in ("Synchronized", "Asynchronous", "Federated", "Selective")
    },
    (GUIDE, "Specialized Models"): blocks(GUIDE)["Modern LLM Setup"],
    (GUIDE, "Real-time Monitoring"): TRAINER,
    (GUIDE, "Performance Tracking"): TRAINED,
    (GUIDE, "VERL Integration"): FAST,
    (GUIDE, "Custom Reward Functions"): TRAINER,
    (GUIDE, "Memory Optimization"): FAST,
    (GUIDE, "Training Speed"): FAST,
}
"""Code that a program of a document needs before it."""
CHECKS = {
    (README, "Basic Training"): quick_start,
    (README, "Advanced Configuration"): six_models,
    (README, "Checkpoint Management"): resumed,
    (REFERENCE, "Advanced Training"): performance_of_six,
    (REFERENCE, "Checkpoint Management 2"): went_on,
    (REFERENCE, "Environment Configuration"): eight_agents,
    (REFERENCE, "Monitoring Setup"): heard,
    (REFERENCE, "Error Recovery"): recovered,
    (GUIDE, "Specialized Models"): specialized,
    (GUIDE, "Real-time Monitoring"): heard,
    (GUIDE, "VERL Integration"): cached,
    (GUIDE, "LoRA Management"): served,
    (GUIDE, "Custom Reward Functions"): paid_by_words,
    (GUIDE, "Example Training Session"): whole_session,
}
"""Effects of the programs; those that only build a configuration have none."""


@pytest.fixture
def servers(monkeypatch):
    """Replace vLLM servers by small servers of this process."""
    stubs = []

    def managed(specs, **settings):
        urls = {}
        for spec in specs:
            stub = VLLMStub(spec.model, spec.served_name)
            stub.start()
            stubs.append(stub)
            urls[spec.served_name] = [stub.url]
        return Fleet.attached(urls)

    monkeypatch.setattr(Fleet, "managed", managed)
    yield
    for stub in stubs:
        stub.stop()


def break_once(trainer):
    """Memory runs out in the next update of one model."""
    learner = trainer.run.learners["model_1"]

    def too_much():
        del learner.end_update
        raise torch.OutOfMemoryError("CUDA out of memory")

    learner.end_update = too_much


@pytest.mark.parametrize(("document", "heading"), PROGRAMS, ids=map("-".join, PROGRAMS))
def test_a_program_runs_unchanged(document, heading, names, servers):
    names["break_once"] = break_once
    run(BEFORE.get((document, heading), ""), names)
    run(blocks(document)[heading], names)
    CHECKS.get((document, heading), bool)(names)
