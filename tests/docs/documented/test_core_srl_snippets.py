"""Every program of the documents on core_srl runs as it stands, and has its effect.

Hub names stand for a folder of the embedded model, APIs for a server on this machine, and a run has
one round of two short games; nothing else is changed. `from core_srl import *` goes before each,
for the documents leave imports out.
"""

import ast
import asyncio
import inspect
import json

import pytest
import torch

import core_srl
from core_srl import MODERN_MODELS, LLMBackend, MultiModelTrainer, list_available_checkpoints
from srl_extensions.vllm.fleet import Fleet
from tests.docs.documented.blocks import blocks, runs
from tests.servers.chat_server import chat_server
from tests.servers.vllm_stub import VLLMStub

DOCUMENTS = ("core_srl_readme", "core_srl_api_reference", "core_srl_multimodel_training")
README, REFERENCE, GUIDE = map(blocks, DOCUMENTS)
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
    """What a program finds: a machine on which all models can be had, and an empty folder."""
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
    """The program, in which `await` may stand outside of functions, as in a notebook."""
    made = compile(code, "snippet", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    result = eval(made, names)
    if inspect.iscoroutine(result):
        asyncio.run(result)


def updates(trainer):
    """Type of a model -> its updates, in order."""
    summary = trainer.get_model_performance_summary().values()
    return [(entry["model_type"], entry["update_count"]) for entry in summary]


ALL_FOUR = [("qwen3", 1), ("llama3", 1), ("openai", 0), ("claude", 0)]


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


def known_models(names):
    assert names["MODERN_MODELS"] == MODERN_MODELS


def completed(names):
    assert names["results"]["status"] == "completed"
    assert names["results"]["training_results"]["training_time"] > 0


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
    names["trainer"].fit()
    names["monitor"].stop()
    with open("logs/training.json", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    assert any("models" in row and "round" in row for row in rows), rows


def recovered(names):
    assert names["config"].batch_size == 16
    assert names["results"]["total_episodes"] == 4
    assert updates(names["trainer"]) == [("llama3", 2)] * 2


def in_little_memory(names):
    run_config = names["config"].to_run_config()
    assert (run_config.backend.kept_tokens, run_config.checkpoints.keep) == (5000, 3)
    assert run_config.engine.play_ahead is False


def shorter(names):
    run_config = names["config"].to_run_config()
    assert run_config.backend.kept_tokens == 5000
    assert run_config.environment.options["max_cycles"] == 16
    assert run_config.algorithm.minibatches == 1 and names["config"].batch_size == 16


def at_full_speed(names):
    config = names["config"]
    assert config.to_run_config().engine.play_ahead and config.to_run_config().backend.batched
    assert (config.to_run_config().rollout.episodes, config.batch_size) == (5, 64)
    assert config.num_gpus == 8


def fewer_saves(names):
    run_config = names["config"].to_run_config()
    assert run_config.rollout.episodes == 5
    assert (run_config.checkpoints.every, run_config.logging.every) == (40, 4)


def trained_in(mode, strategy):
    def check(names):
        config = names["trainer"].run.config
        assert (config.mode.name, config.updates.strategy) == (mode, strategy)
        counts = [count for _, count in updates(names["trainer"])]
        assert counts[2:] == [0, 0] and sum(counts) >= 1

    return check


def strategy(name):
    return lambda names: (
        (names["config"].to_run_config().updates.strategy == name) or pytest.fail(name)
    )


def dealt_six(names):
    run_config = names["config"].to_run_config()
    assert tuple(run_config.models.bases.values()) == tuple(
        MODERN_MODELS[kind] for kind in ("qwen3", "llama3", "qwen3")
    )
    assert list(run_config.models.frozen_models.values()) == [
        "openai:gpt-4o", "anthropic:claude-3-5-sonnet-20241022", "openai:gpt-4o",
    ]  # fmt: skip


def specialized(names):
    names["config"].num_models = 4
    trainer = MultiModelTrainer(names["config"])
    trainer.fit()
    kinds = [("qwen_coder", 1), ("qwen_math", 1), ("openai", 0), ("claude", 0)]
    assert updates(trainer) == kinds


def on_gpus(names):
    config = names["config"]
    assert "num_gpus is 4" in " ".join(config.here().notes)
    config.backend, config.model_types = LLMBackend.VLLM, ["llama3"]
    assert config.to_run_config().backend.managed.base_port == 8001


def cooperation(names):
    assert (names["env"].num_models, names["env"].rules.cooperation_level) == (4, 0.6)


def two_teams(names):
    assert sorted(names["env"].teams.values()) == ["team_a"] * 4 + ["team_b"] * 4


def equal_at_first(names):
    env = names["env"]
    for episode, parts in ((49, False), (50, True)):
        env.reset(seed=0, options={"episode": episode})
        actions = {agent: i % 2 for i, agent in enumerate(env.agents)}
        rewards = env.step(actions)[1]
        assert (len(set(rewards.values())) > 1) is parts


def told_of_progress(names):
    assert names["status"]["progress"] == 2 / 1000
    assert all(stats["avg_reward"] > 0 for stats in names["performance"].values())


def cached(names):
    names["config"].kv_cache_size = 20
    trainer = MultiModelTrainer(names["config"])
    trainer.fit()
    assert trainer.run.config.engine.play_ahead
    assert sum(one.caches.use().dropped for one in trainer.run.players.backends.values()) > 0


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


RESUMED = f"{TRAINED}trainer = MultiModelTrainer(config)\n"
PROGRAMS = {  # document, heading -> what goes before, what must have happened
    ("core_srl_readme", "Basic Training"): ("", quick_start),
    ("core_srl_readme", "Advanced Configuration"): ("", six_models),
    ("core_srl_readme", "Checkpoint Management"): (RESUMED, resumed),
    ("core_srl_readme", "Supported Models"): ("", known_models),
    ("core_srl_api_reference", "Basic Training"): ("", completed),
    ("core_srl_api_reference", "Advanced Training"): ("", performance_of_six),
    ("core_srl_api_reference", "Checkpoint Management 2"): (f"{TRAINED}shorten(rounds=2)", went_on),
    ("core_srl_api_reference", "Environment Configuration"): (TRAINER, eight_agents),
    ("core_srl_api_reference", "Monitoring Setup"): (TRAINER, heard),
    ("core_srl_api_reference", "Error Recovery"): (
        f"shorten(rounds=2)\n{TRAINER}trainer.train_round()\nbreak_once(trainer)", recovered,
    ),
    ("core_srl_api_reference", "Memory Optimization"): ("", in_little_memory),
    ("core_srl_api_reference", "Speed Optimization"): ("", at_full_speed),
    ("core_srl_multimodel_training", "Cooperative Mode"): (
        "", trained_in("cooperative", "synchronized"),
    ),
    ("core_srl_multimodel_training", "Competitive Mode"): (
        "", trained_in("competitive", "selective"),
    ),
    ("core_srl_multimodel_training", "Mixed Mode (Recommended)"): (
        "", trained_in("mixed", "federated"),
    ),
    **{
        ("core_srl_multimodel_training", f"{name} Updates"): (FAST, strategy(name.lower()))
        for name in ("Synchronized", "Asynchronous", "Federated", "Selective")
    },
    ("core_srl_multimodel_training", "Modern LLM Setup"): ("", dealt_six),
    ("core_srl_multimodel_training", "Specialized Models"): (
        GUIDE["Modern LLM Setup"], specialized,
    ),
    ("core_srl_multimodel_training", "GPU Configuration"): ("", on_gpus),
    ("core_srl_multimodel_training", "Cooperative-Competitive Environment"): ("", cooperation),
    ("core_srl_multimodel_training", "Team Battle (4v4)"): ("", two_teams),
    ("core_srl_multimodel_training", "Staged Environment"): ("", equal_at_first),
    ("core_srl_multimodel_training", "Real-time Monitoring"): (TRAINER, heard),
    ("core_srl_multimodel_training", "Performance Tracking"): (TRAINED, told_of_progress),
    ("core_srl_multimodel_training", "VERL Integration"): (FAST, cached),
    ("core_srl_multimodel_training", "LoRA Management"): ("", served),
    ("core_srl_multimodel_training", "Custom Reward Functions"): (TRAINER, paid_by_words),
    ("core_srl_multimodel_training", "Memory Optimization"): (FAST, shorter),
    ("core_srl_multimodel_training", "Training Speed"): (FAST, fewer_saves),
    ("core_srl_multimodel_training", "Example Training Session"): ("", whole_session),
}  # fmt: skip


def test_every_program_is_run():
    programs = {
        (document, heading)
        for document in DOCUMENTS
        for heading, code in blocks(document).items()
        if runs(code)
    }
    assert programs == set(PROGRAMS)


@pytest.fixture
def servers(monkeypatch):
    """Small servers of this process in place of vLLM's."""
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


@pytest.mark.parametrize(("document", "heading"), PROGRAMS, ids=["-".join(key) for key in PROGRAMS])
def test_runs_as_it_stands(document, heading, names, servers):
    before, check = PROGRAMS[document, heading]
    names["break_once"] = break_once
    run(before, names)
    run(blocks(document)[heading], names)
    check(names)
