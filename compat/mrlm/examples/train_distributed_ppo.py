"""PPO in several processes, each with a copy of the model and a share of the episodes.

torchrun --nproc_per_node=4 examples/train_distributed_ppo.py

PPO replicates the model (ddp); train.py shards the model (fsdp).
"""

from policy import options, train

from mrlm.config import DistributedConfig
from mrlm.environments.math import MathProblemGenerator, MathReasoningEnvironment

if __name__ == "__main__":
    problems = MathProblemGenerator(difficulty_range=(1, 3))
    args = options(__doc__, "outputs/distributed_ppo").parse_args()
    train(args, [MathReasoningEnvironment(problems)], distributed=DistributedConfig(enabled=True))
