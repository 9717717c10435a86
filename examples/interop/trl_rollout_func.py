"""One model in one of our environments, trained by a plain TRL GRPOTrainer.

No part of our own trainer runs here: `rollout_func` is TRL's way to let games be played, and
everything else is TRL's. The model plays all four agents of the game.

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


def game():
    """Four agents, eight turns; uniform play earns 0.7625 a turn, the optimum is 0.85."""
    return make("coop_compete_v0", num_agents=4, max_cycles=8)


folder = tiny.folder(game)  # or any chat model: "Qwen/Qwen2.5-0.5B-Instruct"
with tempfile.TemporaryDirectory() as output:
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=False),
        processing_class=AutoTokenizer.from_pretrained(folder, trust_remote_code=False),
        reward_funcs=episode_return_reward,
        rollout_func=make_rollout_func(game, max_new_tokens=4),
        # One row per start; what is said to the model, the environment says.
        train_dataset=Dataset.from_list([{"prompt": "a game"}] * 8),
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
    print(f"step {step}: {reward / 8:.4f} a turn")
