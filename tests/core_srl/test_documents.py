"""The README and the training guide name what is there; their tables are the code's."""

import ast
import os
import re
from pathlib import Path

import pytest

import core_srl
from core_srl.config import MultiModelConfig

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs/training/configuration.md").read_text(encoding="utf-8")


def blocks(document):
    return re.findall(r"^```python\n(.*?)^```", document, re.MULTILINE | re.DOTALL)


def run(code, folder, monkeypatch):
    monkeypatch.chdir(folder)
    names = {"__name__": "__main__"}
    exec(compile(code, "block", "exec", dont_inherit=True), names)
    return names


def test_the_first_example_is_short():
    assert len(blocks(README)[0].splitlines()) <= 20


@pytest.mark.parametrize("document", [README, GUIDE], ids=["README", "training"])
def test_files_that_are_named_exist(document):
    links = re.findall(r"\]\(([^)#]+)\)", document)
    named = re.findall(r"`((?:srl_\w+|examples|docs)/[\w/]+\.\w+)`", document)
    folder = ROOT / "docs" / "training" if document is GUIDE else ROOT
    known = [folder / link for link in links]
    missing = [path for path in (*known, *(ROOT / name for name in named)) if not path.exists()]
    assert not missing


def test_every_example_is_listed():
    index = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    for path in (ROOT / "examples").rglob("*"):
        if path.suffix in (".py", ".yaml"):
            assert f"`{path.name}`" in index


def table(heading):
    """First column -> second column of the table after a heading of the guide."""
    rows = GUIDE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| (.+?) \| `(.*?)` \|", rows, re.MULTILINE))


def read(text):
    return {"null": None, "true": True, "false": False}.get(text, text)


def test_every_documented_field_is_in_the_guide_with_its_default():
    told = {
        name: read(value)
        for names, value in table("The documented settings").items()
        for name in re.findall(r"`(\w+)`", names)
    }
    actual = {name: getattr(MultiModelConfig(), name) for name in MultiModelConfig.model_fields}
    assert told.keys() | {"model_names"} == actual.keys()
    for name, value in told.items():
        default = actual[name]
        default = getattr(default, "name", default)  # an enum's member by its name
        if isinstance(default, list):
            assert ast.literal_eval(value) == default
        else:
            assert str(value) == str(default), name


# The API reference's own examples, as far as their parts exist; numbers are smaller.

DOCUMENTED = {
    "quick start": """
import asyncio
from core_srl import quick_start_multimodel_training

async def main():
    results = await quick_start_multimodel_training(
        num_models=2,
        max_episodes=20
    )
    print(f"Training completed: {results['status']}")
    return results

results = asyncio.run(main())
assert set(results) == {"training_results", "model_performance", "status"}
assert results["status"] == "completed"
assert results["training_results"]["total_episodes"] == 20
evaluation = results["training_results"]["evaluation"]
assert 0.75 < evaluation["before"]["raw_reward"] < 0.775  # at random: 0.7625
assert evaluation["after"]["raw_reward"] > 0.8            # at best: 0.85
""",
    "modes, strategies and monitoring": """
import asyncio
from core_srl import (
    MultiModelConfig, MultiModelTrainer, TrainingMode, WeightUpdateStrategy,
    create_competitive_multimodel_trainer, create_cooperative_multimodel_trainer,
)

async def main():
    trainer = create_cooperative_multimodel_trainer(num_models=2)
    trainer.config.cooperation_strength = 0.8
    trainer.config.weight_update_strategy = WeightUpdateStrategy.SYNCHRONIZED
    trainer.config.checkpoint_dir = "./cooperative"
    trainer.config.max_episodes = trainer.config.update_frequency = 2
    trainer.config.episode_length = 8
    trainer.config.enable_monitoring = True
    trainer.config.log_metrics_interval = 10
    await trainer.train()
    status = trainer.get_training_status()
    print(f"Progress: {status['progress']:.1%}")
    performance = trainer.get_model_performance_summary()
    for model_id, stats in performance.items():
        print(f"{model_id}: {stats['avg_reward']:.3f} avg reward")

    trainer = create_competitive_multimodel_trainer(num_models=2)
    trainer.config.competition_intensity = 0.7
    trainer.config.weight_update_strategy = WeightUpdateStrategy.SELECTIVE
    trainer.config.checkpoint_dir = "./competitive"
    trainer.config.max_episodes = trainer.config.update_frequency = 2
    trainer.config.episode_length = 8
    results = await trainer.train()
    assert results["training_completed"]

asyncio.run(main())
""",
    "session, checkpoints, environment": """
import asyncio
from core_srl import (
    MultiModelConfig, MultiModelTrainer, TrainingMode, create_multi_model_coop_compete_env,
    list_available_checkpoints, load_checkpoint_metadata,
)

async def full_training_example():
    config = MultiModelConfig(
        num_models=2,
        model_types=["tiny"],
        training_mode=TrainingMode.MIXED,
        max_episodes=4,
        update_frequency=2,
        save_interval=2,
        episode_length=8,
        learning_rate=3e-4,
        checkpoint_dir="./training_checkpoints",
    )
    env = create_multi_model_coop_compete_env(num_models=2, cooperation_level=0.6)
    trainer = MultiModelTrainer(config)
    trainer.environment = env
    try:
        results = await trainer.train()
        print(f"Training completed in {results['training_time']:.2f}s")
        print(f"Total episodes: {results['total_episodes']}")
        performance = trainer.get_model_performance_summary()
        for model_id, stats in performance.items():
            print(f"{model_id}:")
            print(f"  Avg Reward: {stats['avg_reward']:.3f}")
            print(f"  Win Rate: {stats['win_rate']:.3f}")
            print(f"  Updates: {stats['update_count']}")
    finally:
        await trainer.shutdown()

    checkpoints = list_available_checkpoints("./training_checkpoints")
    metadata = load_checkpoint_metadata(checkpoints[0], "./training_checkpoints")
    assert metadata["episode"] > 0
    config.max_episodes = 6
    trainer = MultiModelTrainer(config)
    trainer.environment = env
    trainer.load_checkpoint(checkpoints[0])
    results = await trainer.train()
    assert results["total_episodes"] == 6

asyncio.run(full_training_example())
""",
    "models": """
from core_srl import (
    LLMBackend, LLMConfig, LLMResponse, SharedLLMManager, create_claude_manager,
    create_llama3_manager, create_openai_manager, create_qwen3_manager,
    create_qwen_coder_manager, create_qwen_math_manager,
)
from srl_agents.llm import tiny
from srl_envs import make

folder = str(tiny.folder(lambda: make("coop_compete_pair_v0", max_cycles=8)))
for create in (
    create_qwen3_manager, create_qwen_coder_manager, create_qwen_math_manager,
    create_llama3_manager,
):
    manager = create(model_name=folder, device="auto")
    manager.register_node(node_id="node", node_config={"max_new_tokens": 4})
    response = manager.generate_for_node("node", "Your choice?", temperature=1.0)
    assert isinstance(manager, SharedLLMManager) and isinstance(response, LLMResponse)
    weights = dict(manager.backend.model.named_parameters())
    gradients = {name: own.detach().clone() for name, own in weights.items()}
    done = manager.update_shared_parameters(gradients=gradients, learning_rate=3e-4)
    assert isinstance(done, dict) and manager.get_global_stats()["total_updates"] == 1

for create, model in (
    (create_openai_manager, "gpt-4o"), (create_claude_manager, "claude-3-5-sonnet-20241022"),
):
    manager = create(model_name=model, api_key="a key that no server sees")
    assert manager.config.model_name == model

try:
    LLMConfig(backend="mock")
except ValueError as error:
    assert "Unsupported LLM backend" in str(error)
assert LLMConfig(backend=LLMBackend.VLLM).model_name == "Qwen/Qwen2.5-14B-Instruct"
""",
    "benchmark": """
from core_srl import run_benchmark

results = run_benchmark(runs=2, episodes=4, coop_level=0.6, difficulty=0.3)
for name in ("AC", "AP", "PG", "OUR"):
    assert set(results["metrics"][name]) == {"avg_A", "avg_B", "std_A", "std_B"}
""",
    "policies": """
from core_srl import OurMethodPolicy, SimplePG

for policy in (SimplePG(), OurMethodPolicy()):
    action, logprob = policy.act()
    assert action in (0, 1) and logprob <= 0
""",
}


@pytest.mark.parametrize("code", DOCUMENTED.values(), ids=DOCUMENTED.keys())
def test_documented_examples_run(code, tmp_path, monkeypatch, in_small, tiny_folder):
    if "at best" in code:
        in_small(logging__evaluation_episodes=16)
    else:
        in_small(logging__evaluation_episodes=2, models__base=tiny_folder)
    run(code, tmp_path, monkeypatch)


def test_documented_defaults_of_folders_are_one_and_the_same():
    assert core_srl.list_available_checkpoints.__defaults__ == (MultiModelConfig().checkpoint_dir,)
    assert os.path.isabs(MultiModelConfig().checkpoint_dir) is False
