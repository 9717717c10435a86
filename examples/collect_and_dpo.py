"""Record episodes, then train models with DPO on pairs of better and worse answers."""

from functools import partial
from pathlib import Path

from srl_agents.episode import write_jsonl
from srl_extensions.offline.collect import build_policies, play_games
from srl_extensions.offline.config import DpoConfig
from srl_train.config.logging import LoggingConfig
from srl_train.config.models import ModelsConfig
from srl_train.config.run import EnvironmentConfig, RunConfig
from srl_train.environment import build_env
from srl_train.trainer import Trainer

ENVIRONMENT = EnvironmentConfig(
    name="coop_compete_v0",
    options={"num_agents": 4, "cooperation_level": 1.0, "max_cycles": 2},
)


def main() -> None:
    """Train two models, playing two agents each."""
    config = RunConfig(
        environment=ENVIRONMENT,
        models=ModelsConfig(count=2),
        logging=LoggingConfig(evaluation_episodes=64),
        rounds=1,
    )
    # The same as: srl collect CONFIG --episodes 64 --group-size 16 --out episodes.jsonl
    make_env = partial(build_env, config)
    episodes = play_games(make_env, build_policies(config, make_env, {}), 64, seed=0, group_size=16)
    path = Path("runs/collect_and_dpo/episodes.jsonl")
    write_jsonl(path, episodes)

    # Each model trains on the answers of all four agents. With rounds=0, only DPO runs.
    dpo = DpoConfig(data=(str(path),), seats="all", epochs=6, batch_size=8, learning_rate=1e-3)
    config = config.replaced(dpo=dpo, rounds=0)
    results = Trainer(config, path.parent / "run").fit()
    [stage] = results["stages"]
    before, after = (results["evaluation"][when]["raw_reward"] for when in ("before", "after"))
    print(f"{stage['games']} episodes gave {stage['models']['model_0']['samples']} pairs")
    print(f"mean reward per agent and step in these episodes: {stage['games_reward']:.4f}")
    print(f"mean reward in evaluation: {before:.4f} before and {after:.4f} after")


if __name__ == "__main__":
    main()
