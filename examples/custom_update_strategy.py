"""Your own update strategy, composed with one of ours, in a run.

The strategy is Lookahead (Zhang et al. 2019): models run ahead, and every few rounds they step
back to half way between where they are and where they were. After `synchronized`, which makes
all models apply the mean gradient, it damps four models that move as one.

    python examples/custom_update_strategy.py
"""

from srl_train.config.logging import LoggingConfig
from srl_train.config.run import EnvironmentConfig, RolloutConfig, RunConfig
from srl_train.metrics import read_metrics
from srl_train.trainer import Trainer
from srl_train.updates import UpdateStrategy, chain, synchronized


def lookahead(rounds=2, share=0.5):
    """Every `rounds` rounds, slow weights take `share` of the way to the models' own."""

    def init(models):
        return {}  # model -> its slow weights; plain data, so that a checkpoint can hold it

    def on_weights(before, weights, slow, context):
        slow = {**before, **slow}  # at first, where the models started
        if (context.round + 1) % rounds:
            return weights, slow
        middle = {
            model: {name: slow[model][name].lerp(own[name], share) for name in own}
            for model, own in weights.items()
        }
        return middle, {**slow, **middle}

    return UpdateStrategy(init, on_weights=on_weights)


trainer = Trainer(
    RunConfig(
        environment=EnvironmentConfig(
            name="coop_compete_v0", options={"num_agents": 4, "max_cycles": 8}
        ),
        rollout=RolloutConfig(group_size=8, groups_per_round=1),
        logging=LoggingConfig(evaluation_episodes=16),
        rounds=4,
    ),
    run_dir="runs/custom_update_strategy",
    strategy=chain(synchronized(), lookahead()),
)
trainer.fit()
for row in read_metrics(trainer.files.metrics):
    moved = ", ".join(f"{model['weight_change']:.4f}" for model in row["models"].values())
    print(f"round {row['round']}: raw reward {row['environment']['raw_reward']:.4f}, moved {moved}")
