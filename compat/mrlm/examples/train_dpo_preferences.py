"""Pairs of a better and a worse answer, by DPO."""

from policy import experiment, load, options

from mrlm.algorithms.dpo import DPOTrainer, PreferenceDataset, PreferencePair
from mrlm.cli import print_results
from mrlm.core import Message
from mrlm.environments.math import MathReasoningEnvironment

if __name__ == "__main__":
    args = options(__doc__, "outputs/dpo", iterations=3).parse_args()
    pairs = []
    for number in range(10):
        question = f"What is {number} plus {number}? Answer with the number alone."
        wrong = f"It might be {2 * number + 1}."
        pairs.append(PreferencePair([Message("user", question)], str(2 * number), wrong))
    dataset = PreferenceDataset(pairs)
    dataset.to_json("data/preferences.jsonl")  # configs/preference_dpo.yaml reads the file.
    policy = load(args, [MathReasoningEnvironment()])
    print_results(DPOTrainer(policy, dataset, experiment(args)).train())
