"""GRPO in several processes that share the model as `--strategy` says.

torchrun --nproc_per_node=4 train.py --strategy fsdp
"""

from policy import experiment, load, options, tell

from mrlm.algorithms.grpo import GRPOTrainer
from mrlm.config import DistributedConfig, GRPOConfig
from mrlm.environments.math import MathProblemGenerator, MathReasoningEnvironment


def main() -> None:
    parser = options(__doc__, "outputs/distributed_grpo")
    parser.add_argument("--strategy", choices=("ddp", "fsdp"), default="ddp")
    args = parser.parse_args()
    environments = [MathReasoningEnvironment(MathProblemGenerator(difficulty_range=(1, 3)))]
    config = experiment(
        args,
        "grpo",
        grpo=GRPOConfig(group_size=8),
        distributed=DistributedConfig(enabled=True, strategy=args.strategy),
    )
    tell(GRPOTrainer(load(args, environments), environments, config).train())


if __name__ == "__main__":
    main()
