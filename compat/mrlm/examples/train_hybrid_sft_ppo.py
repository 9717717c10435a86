"""Two stages: the model learns from games that it played, then goes on by PPO.

python examples/train_hybrid_sft_ppo.py --model Qwen/Qwen2.5-0.5B-Instruct
"""

from policy import experiment, load, options, tell

from mrlm.algorithms.ppo import PPOTrainer
from mrlm.algorithms.sft import SFTTrainer
from mrlm.config import SFTConfig
from mrlm.environments.math import MathProblemGenerator, MathReasoningEnvironment


def main() -> None:
    args = options(__doc__, "outputs/hybrid", iterations=20).parse_args()
    environments = [MathReasoningEnvironment(MathProblemGenerator(difficulty_range=(1, 2)))]
    policy = load(args, environments)
    imitation = experiment(args, "sft", sft=SFTConfig(mode="combined"))
    imitation = imitation.replaced(output_dir=f"{args.output}/sft")
    tell(SFTTrainer(policy, environments, imitation).train(num_iterations=1))
    reinforcement = experiment(args, "ppo").replaced(output_dir=f"{args.output}/ppo")
    tell(PPOTrainer(policy, environments, reinforcement).train())


if __name__ == "__main__":
    main()
