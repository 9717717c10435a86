"""Train with an update strategy of your own, composed with a built-in one.

The strategy is Lookahead (Zhang et al. 2019): every few rounds, the weights move back to the middle
between their present values and the slow weights. All four models apply the mean
gradient, as with `synchronized`.

    python examples/custom_update_strategy.py
"""

from srl_train.config.logging import LoggingConfig
from srl_train.config.run import EnvironmentConfig, RolloutConfig, RunConfig
from srl_train.metrics import read_metrics
from srl_train.trainer import Trainer
from srl_train.updates import UpdateStrategy, synchronized


def lookahead(rounds=2, share=0.5):
    """Return a strategy that blends slow and present weights every `rounds` rounds."""

    def init(models):
        return {}  # model -> its slow weights; a checkpoint saves this state

    def on_weights(before, weights, slow, context):
        slow = {**before, **slow}  # initially, the weights before the first update
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
    strategy=lookahead()._replace(on_gradients=synchronized().on_gradients),
)
trainer.fit()
for row in read_metrics(trainer.files.metrics):
    changes = ", ".join(f"{model['weight_change']:.4f}" for model in row["models"].values())
    reward = row["environment"]["raw_reward"]
    print(f"round {row['round']}: raw reward {reward:.4f}, weight changes {changes}")
