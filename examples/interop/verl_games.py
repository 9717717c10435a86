"""Write training rows for verl and print the training command.

    python examples/interop/verl_games.py [MODEL] [FOLDER]

This program needs neither a GPU nor verl; the printed command needs both (docs/verl_areal.md).
"""

import shlex
import sys
from pathlib import Path

from srl_extensions.bridges.focal_game import FocalGame, rows, write_rows

# Each row is one episode in which the model plays one of these three agents.
OPTIONS = {"num_agents": 4, "max_cycles": 8}
GAMES = [
    FocalGame("coop_compete_v0", agent, {"agent_3": "tit_for_tat"}, OPTIONS, max_new_tokens=16)
    for agent in ("agent_0", "agent_1", "agent_2")
]
SETTINGS = {
    "algorithm.adv_estimator": "grpo",
    "data.train_batch_size": 48,
    "actor_rollout_ref.actor.ppo_mini_batch_size": 24,
    "actor_rollout_ref.actor.ppo_epochs": 4,
    "actor_rollout_ref.actor.optim.lr": 1e-6,
    "actor_rollout_ref.actor.use_dynamic_bsz": True,
    "actor_rollout_ref.rollout.name": "vllm",
    "actor_rollout_ref.rollout.n": 8,  # episodes per group, compared by GRPO
    "data.max_prompt_length": 512,  # the rules and the first observation
    "data.max_response_length": 1024,  # answers and observations of all later steps
    "actor_rollout_ref.rollout.gpu_memory_utilization": 0.5,
    "trainer.n_gpus_per_node": 1,
    "trainer.total_epochs": 10,
    "trainer.logger": "[console]",
}


def main(model="Qwen/Qwen2.5-1.5B-Instruct", folder="runs/verl_games"):
    """Write train.jsonl and val.jsonl into the folder."""
    place = Path(folder).absolute()
    files = {"val": place / "val.jsonl", "train": place / "train.jsonl"}
    write_rows(files["val"], rows(GAMES, range(16)))
    write_rows(files["train"], rows(GAMES, range(16, 160)))
    settings = {
        **SETTINGS,
        "actor_rollout_ref.model.path": model,
        **{f"data.{name}_files": path for name, path in files.items()},
        "trainer.default_local_dir": place / "checkpoints",
    }
    named = [f"{name}={value}" for name, value in settings.items()]
    print(shlex.join([sys.executable, "-m", "verl.trainer.main_ppo", *named]))


if __name__ == "__main__":
    main(*sys.argv[1:])
