"""PPO in several processes, each of which holds the model and a share of the episodes.

torchrun --nproc_per_node=4 examples/train_distributed_ppo.py

PPO's processes hold the model whole (ddp); for one that is sharded (fsdp) see train.py.
"""

from policy import experiment, load, options, tell

from mrlm.algorithms.ppo import PPOTrainer
from mrlm.config import DistributedConfig
from mrlm.environments.math import MathProblemGenerator, MathReasoningEnvironment


def main() -> None:
    args = options(__doc__, "outputs/distributed_ppo").parse_args()
    environments = [MathReasoningEnvironment(MathProblemGenerator(difficulty_range=(1, 3)))]
    config = experiment(args, "ppo", distributed=DistributedConfig(enabled=True, strategy="ddp"))
    tell(PPOTrainer(load(args, environments), environments, config).train())


if __name__ == "__main__":
    main()
