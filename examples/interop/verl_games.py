"""verl trains a model on our games: the rows are written, and the command is printed.

    python examples/interop/verl_games.py [MODEL] [FOLDER]

Needs no GPU and no verl; the command needs both (docs/verl_areal.md).
"""

import shlex
import sys

from core_srl import VERLTrainer
from srl_extensions.bridges.focal_game import FocalGame

# Each row is one game of one of these three agents; the model plays all of them.
OPTIONS = {"num_agents": 4, "max_cycles": 8}
GAMES = [
    FocalGame("coop_compete_v0", agent, {"agent_3": "tit_for_tat"}, OPTIONS, max_new_tokens=16)
    for agent in ("agent_0", "agent_1", "agent_2")
]
SETTINGS = {
    "data.max_prompt_length": 512,  # the rules and the first round
    "data.max_response_length": 1024,  # what is answered, and told, in the rounds after it
    "actor_rollout_ref.rollout.gpu_memory_utilization": 0.5,
    "trainer.n_gpus_per_node": 1,
    "trainer.total_epochs": 10,
    "trainer.logger": "[console]",
}


def main(model="Qwen/Qwen2.5-1.5B-Instruct", folder="runs/verl_games"):
    """Write train.jsonl and val.jsonl into the folder."""
    trainer = VERLTrainer(model, rollout_size=48, mini_batch_size=24, learning_rate=1e-6)
    print(shlex.join(trainer.prepare(GAMES, range(160), folder, SETTINGS)))


if __name__ == "__main__":
    main(*sys.argv[1:])
