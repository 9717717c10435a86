"""Train four small models to cooperate: a complete training script.

python examples/train.py [folder]
"""

import argparse

from srl_train.config.learning.learners import GrpoConfig
from srl_train.config.logging import LoggingConfig
from srl_train.config.run import EnvironmentConfig, RolloutConfig, RunConfig
from srl_train.modes import CooperativeConfig
from srl_train.trainer import Trainer

parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
parser.add_argument("folder", nargs="?", default="runs/train", help="folder of the run's files")
folder = parser.parse_args().folder

config = RunConfig(
    environment=EnvironmentConfig(
        name="coop_compete_v0", options={"num_agents": 4, "max_cycles": 8}
    ),
    mode=CooperativeConfig(),
    rollout=RolloutConfig(group_size=8, groups_per_round=2),
    algorithm=GrpoConfig(scale_rewards="none"),
    logging=LoggingConfig(evaluation_episodes=32),
    rounds=5,
)
trainer = Trainer(config, run_dir=folder, progress=True)
results = trainer.fit()

before, after = results["evaluation"]["before"], results["evaluation"]["after"]
low, high = trainer.run.baselines["uniform"], trainer.run.baselines["optimum"]
print(f"reward per agent and step: {low:.4f} for uniform play, {high:.4f} at the optimum")
print(f"the models: {before['raw_reward']:.4f} before training and {after['raw_reward']:.4f} after")
for name, state in results["final_model_states"].items():
    print(f"{name}: {state['update_count']} updates, cooperated {state['cooperation_score']:.0%}")
print(f"run folder: {trainer.files.folder}; report: srl report {trainer.files.folder}")
