"""Train a model with AReaL on our environments, with the weight version of every sampled token.

    python examples/interop/areal_games.py --config examples/interop/areal_games.yaml

Needs AReaL and two GPUs (docs/verl_areal.md).
"""

import sys

from areal.api.cli_args import GRPOConfig, load_expr_config
from datasets import Dataset

from srl_extensions.bridges.focal_game import FocalGame, rows

# Each row is one episode in which the model plays one of these three agents.
OPTIONS = {"num_agents": 4, "max_cycles": 8}
GAMES = [
    FocalGame("coop_compete_v0", agent, {"agent_3": "tit_for_tat"}, OPTIONS, max_new_tokens=16)
    for agent in ("agent_0", "agent_1", "agent_2")
]
WORKFLOW = "srl_extensions.bridges.areal.SrlWorkflow"


def data():
    """Return one row per agent and seed, for 160 seeds."""
    return Dataset.from_list(rows(GAMES, range(160)))


def main(arguments):
    """Train with the configuration named on the command line."""
    from areal import PPOTrainer

    config, _ = load_expr_config(arguments, GRPOConfig)
    with PPOTrainer(config, train_dataset=data()) as trainer:
        settings = {"gconfig": config.gconfig, "tokenizer": config.tokenizer_path}
        trainer.train(workflow=WORKFLOW, workflow_kwargs=settings)


if __name__ == "__main__":
    main(sys.argv[1:])
