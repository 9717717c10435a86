"""IPPO and recurrent PPO in the games with hidden rules, with Stable-Baselines3 and sb3-contrib.

make bench-classic     installs both, and trains with three seeds

All agents share one policy, and each learns from its own reward. The settings are equal in all
games and were chosen with seeds 100 and 101.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import records
from srl_envs import make, vector
from srl_envs.games.hidden import SPLITS
from srl_train.run_files import write_whole

GAMES = ("coop_compete_pair_v1", "coop_compete_v1", "team_battle_v1", "staged_v1", "bandit_v1")
ALGORITHMS = IPPO, RECURRENT = "IPPO", "recurrent PPO"
AGENTS, AGENT_STEPS = 64, 262_144  # of all copies of a game
SETTINGS = {
    "n_steps": 64, "batch_size": 2048, "n_epochs": 10, "learning_rate": 3e-3, "gamma": 0.95,
    "ent_coef": 0.01, "device": "cpu",
}  # fmt: skip
LSTM = {"lstm_hidden_size": 32, "shared_lstm": True, "enable_critic_lstm": False, "net_arch": [64]}
EPISODES, EVALUATION_SEED = 16, 1_000_000  # of each rule set
POINTS = 8  # of the learning curve


def trained(game: str, algorithm: str, seed: int) -> dict[str, Any]:
    """Train an algorithm in a game; return the numbers of the run.

    "train" and "test" are mean rewards per agent and step of the trained policy's most probable
    actions. "curve" has those of training, in equal parts of it.
    """
    import supersuit
    from sb3_contrib import RecurrentPPO
    from stable_baselines3 import PPO
    from stable_baselines3.common.utils import set_random_seed
    from stable_baselines3.common.vec_env import VecNormalize

    env = make(game)
    seats = supersuit.concat_vec_envs_v1(
        supersuit.pettingzoo_env_to_vec_env_v1(env), AGENTS // len(env.possible_agents),
        num_cpus=0, base_class="stable_baselines3",
    )  # fmt: skip
    seats.venv.reset(seed=1000 * seed)  # The learner resets without a seed.
    envs = VecNormalize(seats, norm_reward=False)
    set_random_seed(seed)
    if algorithm == IPPO:
        model = PPO("MlpPolicy", envs, **SETTINGS)
    else:
        model = RecurrentPPO("MlpLstmPolicy", envs, policy_kwargs=LSTM, **SETTINGS)
    earned: list[float] = []
    model.learn(AGENT_STEPS, callback=lambda now, _: earned.append(now["rewards"].mean()) or True)

    def act(rows: Any, state: Any, starts: Any) -> Any:
        return model.predict(envs.normalize_obs(rows), state, starts, deterministic=True)

    scores = {split: mean_reward(act, game, split) for split in SPLITS}
    curve = [float(np.mean(part)) for part in np.array_split(earned, POINTS)]
    return {"game": game, "algorithm": algorithm, "seed": seed, **scores, "curve": curve}


def mean_reward(act: Callable[..., Any], game: str, split: str) -> float:
    """Play EPISODES episodes of each rule set; return the mean reward per agent and step.

    `act` maps (observations, memory, whether each is the first) to (actions, memory).
    """
    one, games = make(game, split=split), vector.make(game, EPISODES, split=split)
    earned = []
    for number in range(len(one.rule_sets)):
        seen, _ = games.reset(seed=EVALUATION_SEED, options={"rule_set": number})
        state, starts = None, np.ones(EPISODES * len(one.possible_agents), bool)
        for _ in range(one.max_cycles):
            actions, state = act(seen.reshape(len(starts), -1), state, starts)
            seen, paid, *_ = games.step(actions.reshape(EPISODES, -1))
            earned.append(paid)
            starts = np.zeros_like(starts)
    return float(np.mean(earned))


def table(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return a Markdown table of runs with one row per game and split."""
    scores: dict[tuple[str, str, str], list[float]] = {}
    for run, split in product(runs, SPLITS):
        scores.setdefault((run["game"], split, run["algorithm"]), []).append(run[split])
    rows = []
    for game, split in dict.fromkeys(key[:2] for key in scores):
        *lower, optimum = (f"{v:.3f}" for v in make(game, split=split).baselines().values())
        found = [records.OverSeeds(scores[game, split, name]).interval for name in ALGORITHMS]
        rows.append([f"`{game}`, {split}", *lower, *(f"{one:.3f}" for one in found), optimum])
    headers = ("game, split", "uniform", "constant", "scripted", *ALGORITHMS, "optimum")
    return records.table(headers, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train in two processes, print and record."""
    parser = records.parser(__doc__)
    parser.add_argument("--seeds", nargs="+", type=int, default=range(3), metavar="SEED")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all runs to FILE")
    options = parser.parse_args(arguments)
    seeds, games, algorithms = zip(*product(options.seeds, GAMES, ALGORITHMS), strict=True)
    runs = []
    with ProcessPoolExecutor(2) as pool:
        for run in pool.map(trained, games, algorithms, seeds):
            print(json.dumps(run), flush=True)
            runs.append(run)
    about = {"agent steps": AGENT_STEPS, "seeds": list(options.seeds), **SETTINGS, "policy": LSTM}
    if options.json is not None:
        content = {**records.circumstances(), "settings": about, "runs": runs}
        write_whole(options.json, json.dumps(content, indent=1) + "\n")
    return records.keep(f"{about}\n\n{table(runs)}", options)


if __name__ == "__main__":
    raise SystemExit(main())
