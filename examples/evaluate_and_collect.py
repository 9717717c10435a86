"""Measure pass@k of a model on a task, then record its correct answers for training.

    python examples/evaluate_and_collect.py

The embedded model writes one-line Python functions at random, and the sandbox runs their tests. The
evaluation samples each held-out problem several times. Then the model answers problems of the
training set, and the correct answers are written to a file.
"""

from functools import partial
from pathlib import Path

from srl_agents.episode import write_jsonl
from srl_envs import scenarios
from srl_extensions.judging.scenarios import score
from srl_extensions.offline.collect import build_policies, filtered, play_games
from srl_train.config.models import ModelsConfig, SamplingConfig
from srl_train.config.run import EnvironmentConfig, RunConfig
from srl_train.environment import build_env

TASK = EnvironmentConfig(
    name="code_v0", options={"families": "returns", "difficulty": 1, "max_cycles": 1}
)
PROBLEMS, SAMPLES = 12, 8


def main() -> None:
    """Evaluate the embedded model, then record its correct answers."""
    models = ModelsConfig(count=1, sampling=SamplingConfig(max_new_tokens=24))
    config = RunConfig(environment=TASK, models=models)
    make_env = partial(build_env, config)
    policies = build_policies(config, make_env, {})

    # Similar to: srl eval --scenario code_v0.one_line_unseen --policy tiny --episodes 12
    #                            --samples 8 --pass-at 1 4 8 --max-new-tokens 24
    scenario = scenarios.scenario("code_v0.one_line_unseen")
    result = score(
        scenario, policies["agent_0"], PROBLEMS, seed=0, samples=SAMPLES, pass_at=(1, 4, SAMPLES)
    )
    assert result.solved is not None  # set for every task
    print(f"{scenario.name}, {PROBLEMS} problems, {SAMPLES} samples of each:")
    for one in result.solved.pass_at:
        low, high = one.interval or (float("nan"),) * 2
        print(f"  pass@{one.k}: {one.estimate:.3f} ({low:.3f} to {high:.3f})")

    # Similar to: srl collect examples/configs/code.yaml --episodes 32 --group-size 4
    #                            --min-return 1 --out solved.jsonl
    episodes = play_games(make_env, policies, 32, seed=0, group_size=4)
    kept = filtered(episodes, min_return=1.0)
    path = Path("runs/evaluate_and_collect/solved.jsonl")
    write_jsonl(path, kept)
    problems = {episode.turns[0][0].info["problem"] for episode in episodes}
    print(f"{len(episodes)} answers to {len(problems)} problems, {len(kept)} correct: {path}")
    for episode in kept[:1]:
        [[step]] = episode.turns
        print(f"{step.observation['text']}\n  {step.decision.text}")


if __name__ == "__main__":
    main()
