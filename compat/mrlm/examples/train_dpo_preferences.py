"""Pairs of a better and a worse answer, by DPO.

python examples/train_dpo_preferences.py --model Qwen/Qwen2.5-0.5B-Instruct
"""

from policy import experiment, load, options, tell

from mrlm.algorithms.dpo import (
    DPOTrainer,
    PreferenceDataset,
    PreferencePair,
    PreferredAnswers,
)
from mrlm.core import Message


def main() -> None:
    args = options(__doc__, "outputs/dpo", iterations=3).parse_args()
    pairs = []
    for number in range(10):
        question = f"What is {number} plus {number}? Answer with the number alone."
        wrong = f"It might be {2 * number + 1}."
        prompt = [Message("user", question)]
        pairs.append(PreferencePair(prompt, chosen=str(2 * number), rejected=wrong))
    dataset = PreferenceDataset(pairs)
    dataset.to_json("data/preferences.json")  # which configs/preference_dpo.yaml reads
    policy = load(args, [PreferredAnswers(dataset)])
    tell(DPOTrainer(policy, dataset, experiment(args, "dpo")).train())


if __name__ == "__main__":
    main()
