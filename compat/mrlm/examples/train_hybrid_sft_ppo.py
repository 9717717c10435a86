"""Two stages: the model learns from its own episodes by SFT, then by PPO."""

from policy import experiment, load, options

from mrlm.algorithms.ppo import PPOTrainer
from mrlm.algorithms.sft import SFTTrainer
from mrlm.cli import print_results
from mrlm.config import SFTConfig
from mrlm.environments.math import MathProblemGenerator, MathReasoningEnvironment

if __name__ == "__main__":
    args = options(__doc__, "outputs/hybrid", iterations=20).parse_args()
    config = experiment(args, sft=SFTConfig(mode="combined"))
    environments = [MathReasoningEnvironment(MathProblemGenerator(difficulty_range=(1, 2)))]
    policy = load(args, environments)
    for trainer, iterations in ((SFTTrainer, 1), (PPOTrainer, args.iterations)):
        stage = config.replaced(output_dir=f"{args.output}/{trainer.algorithm}")
        print_results(trainer(policy, environments, stage).train(iterations))
