"""GRPO in several processes that share the model as `--strategy` selects.

torchrun --nproc_per_node=4 train.py --strategy fsdp
"""

from policy import options, train

from mrlm.algorithms.grpo import GRPOTrainer
from mrlm.config import DistributedConfig, GRPOConfig
from mrlm.environments.math import MathProblemGenerator, MathReasoningEnvironment

if __name__ == "__main__":
    parser = options(__doc__, "outputs/distributed_grpo")
    parser.add_argument("--strategy", choices=("ddp", "fsdp"), default="ddp")
    args = parser.parse_args()
    train(
        args,
        [MathReasoningEnvironment(MathProblemGenerator(difficulty_range=(1, 3)))],
        GRPOTrainer,
        grpo=GRPOConfig(group_size=8),
        distributed=DistributedConfig(enabled=True, strategy=args.strategy),
    )
