"""Record games, then let models learn from what was better and what was worse in them (DPO)."""

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

GAME = EnvironmentConfig(
    name="coop_compete_v0",
    options={"num_agents": 4, "cooperation_level": 1.0, "max_cycles": 2},
)


def main() -> None:
    """Two models, two agents each."""
    config = RunConfig(
        environment=GAME,
        models=ModelsConfig(count=2),
        logging=LoggingConfig(evaluation_episodes=64),
        rounds=1,
    )
    # The same as: srl collect CONFIG --episodes 64 --group-size 16 --out games.jsonl
    make_env = partial(build_env, config)
    games = play_games(make_env, build_policies(config, make_env, {}), 64, seed=0, group_size=16)
    path = Path("runs/collect_and_dpo/games.jsonl")
    write_jsonl(path, games)

    # Every model learns from all four agents, and no round follows.
    dpo = DpoConfig(data=(str(path),), seats="all", epochs=6, batch_size=8, learning_rate=1e-3)
    config = config.replaced(dpo=dpo, rounds=0)
    results = Trainer(config, path.parent / "run").fit()
    [stage] = results["stages"]
    before, after = (results["evaluation"][when]["raw_reward"] for when in ("before", "after"))
    print(f"{stage['games']} games gave {stage['models']['model_0']['samples']} pairs")
    print(f"an agent earned {stage['games_reward']:.4f} a turn in these games")
    print(f"the models earned {before:.4f} before and {after:.4f} after")


if __name__ == "__main__":
    main()
