"""Imitation of answers, and prediction of what the environment tells next.

python examples/train_sft_world_model.py --model Qwen/Qwen2.5-0.5B-Instruct
"""

from policy import experiment, load, options, tell

from mrlm.algorithms.sft import SFTTrainer
from mrlm.config import SFTConfig
from mrlm.environments.math import MathProblemGenerator, MathReasoningEnvironment


def main() -> None:
    args = options(__doc__, "outputs/sft", iterations=3).parse_args()
    problems = MathProblemGenerator(difficulty_range=(1, 2))
    config = experiment(args, "sft", sft=SFTConfig(mode="combined"))
    environments = [MathReasoningEnvironment(problems)]
    tell(SFTTrainer(load(args, environments), environments, config).train())


if __name__ == "__main__":
    main()
