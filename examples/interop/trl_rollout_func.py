"""Train one model in one of our environments with a plain TRL GRPOTrainer.

No part of our own trainer runs here: `rollout_func` plays the episodes, and TRL does the rest. The
model plays all four agents.

    python examples/interop/trl_rollout_func.py
"""

import tempfile

from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from srl_agents.llm import tiny
from srl_envs import make
from srl_extensions.bridges.trl_rollout import episode_return_reward, make_rollout_func

STEPS = 6


def make_env():
    """Return the environment. Reward per step: 0.7625 for uniform play, 0.85 at best."""
    return make("coop_compete_v0", num_agents=4, max_cycles=8)


folder = tiny.folder(make_env)  # or any chat model: "Qwen/Qwen2.5-0.5B-Instruct"
with tempfile.TemporaryDirectory() as output:
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=False),
        processing_class=AutoTokenizer.from_pretrained(folder, trust_remote_code=False),
        reward_funcs=episode_return_reward,
        rollout_func=make_rollout_func(make_env, max_new_tokens=4),
        # One row per group. The environment writes the prompts, so this text is not used.
        train_dataset=Dataset.from_list([{"prompt": "unused"}] * 8),
        args=GRPOConfig(
            output_dir=output,
            num_generations=16,
            per_device_train_batch_size=64,
            max_steps=STEPS,
            learning_rate=3e-3,
            lr_scheduler_type="constant",
            logging_steps=1,
            disable_tqdm=True,
            use_cpu=True,
            bf16=False,
            report_to=[],
            save_strategy="no",
        ),
    )
    trainer.remove_callback(PrinterCallback)  # it would print every metric of every step
    trainer.train()

rewards = [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]
for step, reward in enumerate(rewards):
    print(f"step {step}: {reward / 8:.4f} per agent and step")
