"""Algorithms of Stable-Baselines3, and a language model, in games with hidden rules and scenarios.

make bench-classic     installs Stable-Baselines3 and sb3-contrib, and trains with ten seeds

benchmarks/configs/classic.yaml has the settings. The agents of a game share one policy, and each
learns from its own reward. In scenarios PPO learns to play one agent among fixed partners.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import yaml

from benchmarks import records
from benchmarks.claim import select
from benchmarks.runs import HeldOut, assembled, rounds_of
from srl_agents.episode import Decision, Episode
from srl_agents.policy import AgentObservation, PerAgentPolicy, Policy
from srl_agents.scripted.registry import classic_policy, names
from srl_envs import make, vector
from srl_envs.games.hidden import SPLITS
from srl_envs.scenarios import scenario
from srl_extensions.judging.scenarios import score

PLAN = yaml.safe_load((Path(__file__).parent / "configs" / "classic.yaml").read_text("utf-8"))
SCENARIOS, SETTINGS = PLAN["scenarios"], PLAN["settings"]
CLASSIC = IPPO, MAPPO, DEEP_Q, RECURRENT = "IPPO", "MAPPO", "DQN", "recurrent PPO"
MODEL = "tiny model"
COLUMNS = ("uniform", "constant", "scripted", *CLASSIC, MODEL, "optimum")


def trained(seed: int, place: str, algorithm: str) -> tuple[dict[str, float], list[float]]:
    """Train with Stable-Baselines3; return scores by split, and the mean reward of every step."""
    import supersuit
    import torch
    from sb3_contrib import RecurrentPPO
    from stable_baselines3 import DQN, PPO
    from stable_baselines3.common import env_util, utils, vec_env

    if place in SCENARIOS:
        rows = env_util.make_vec_env(scenario(place).gym_env, PLAN["agents"], seed=1000 * seed)
    else:
        game = env = make(place)
        if algorithm == MAPPO:
            game.reset()  # SuperSuit asks for an observation to find the space.
            env = supersuit.observation_lambda_v0(
                game, lambda seen, *_: np.append(seen, game.state())
            )
        rows = supersuit.concat_vec_envs_v1(
            supersuit.pettingzoo_env_to_vec_env_v1(env), PLAN["agents"] // game.max_num_agents,
            num_cpus=0, base_class="stable_baselines3",
        )  # fmt: skip
        rows.venv.reset(seed=1000 * seed)  # The learner resets without a seed.
    envs = vec_env.VecNormalize(rows, norm_reward=False)
    utils.set_random_seed(seed)
    envs.action_space.seed(seed)  # DQN explores with the generator of this space.
    kind = {DEEP_Q: DQN, RECURRENT: RecurrentPPO}.get(algorithm, PPO)
    model = kind(env=envs, **SETTINGS[algorithm])
    if algorithm == MAPPO:
        nets, [own] = model.policy.mlp_extractor, game.observation_space("agent_0").shape
        is_own = torch.arange(envs.observation_space.shape[0]) < own
        nets.forward_actor = lambda seen: nets.policy_net(seen * is_own)
    earned: list[float] = []
    model.learn(PLAN["agent_steps"], lambda now, _: earned.append(now["rewards"].mean()) or True)

    def act(rows: Any, memory: Any, starts: Any) -> Any:
        seen = np.zeros((len(rows), *envs.observation_space.shape), np.float32)
        seen[:, : rows.shape[1]] = rows  # The rest is for the critic of MAPPO.
        return model.predict(envs.normalize_obs(seen), memory, starts, deterministic=True)

    if place in SCENARIOS:
        return {split: mean_return(Trained(act), place, split) for split in SPLITS}, earned
    return {split: mean_reward(act, place, split) for split in SPLITS}, earned


@dataclass(frozen=True)
class Trained(PerAgentPolicy):
    """Policy of one agent without memory."""

    choose: Callable[..., Any]

    def decide(self, seen: AgentObservation, state: object) -> Decision:
        actions, _ = self.choose(seen.observation[None], None, np.ones(1, bool))
        return Decision(int(actions[0]))


def mean_return(policy: Policy, place: str, split: str, **options: Any) -> float:
    """Return the mean return in a scenario, or in its held-out form."""
    played = scenario(SCENARIOS[place] if split == "test" else place)
    played = replace(played, options={**played.options, **options})
    return score(played, policy, PLAN["scenario_episodes"], PLAN["evaluation_seed"]).focal_return


def mean_reward(act: Callable[..., Any], game: str, split: str) -> float:
    """Return the mean reward per agent and step of `act`, with equally many of all rule sets."""
    one, count = make(game, split=split), PLAN["episodes"]
    games = vector.make(game, count, split=split)
    earned = []
    for number in range(len(one.rule_sets)):
        seen, _ = games.reset(seed=PLAN["evaluation_seed"], options={"rule_set": number})
        state, starts = None, np.ones(count * len(one.possible_agents), bool)
        for _ in range(one.max_cycles):
            actions, state = act(seen.reshape(len(starts), -1), state, starts)
            seen, paid, *_ = games.step(actions.reshape(count, -1))
            earned.append(paid)
            starts = np.zeros_like(starts)
    return float(np.mean(earned))


def model_trained(seed: int, game: str) -> tuple[dict[str, float], list[float]]:
    """Train one language model as all agents; return as `trained`, with sampled actions."""
    played = {"name": game, "options": {"max_cycles": make(game).max_cycles}}
    rounds = {"rounds": PLAN["model_rounds"][game]}
    with assembled({**SETTINGS[MODEL], "environment": played, **rounds, "seed": seed}) as run:
        earned = [reward_of(result.episodes)["reward"] for result in rounds_of(run)]
        scores = {}
        for split in SPLITS:
            rule_sets = range(len(make(game, split=split).rule_sets))
            starts = [{"rule_set": number} for number in rule_sets] * PLAN["model_episodes"]
            seeds = range(PLAN["evaluation_seed"], PLAN["evaluation_seed"] + len(starts))
            exam = HeldOut(partial(make, game, split=split), seeds, reward_of, starts)
            scores[split] = exam(run)["reward"]
    return scores, earned


def reward_of(episodes: Sequence[Episode]) -> dict[str, float]:
    """Return the mean reward per agent and step."""
    return {"reward": fmean(one.reward for e in episodes for turn in e.turns for one in turn)}


def references(place: str, split: str) -> dict[str, float]:
    """Return `baselines()` of a game, or mean returns of scripted policies in a scenario."""
    if place not in SCENARIOS:
        return make(place, split=split).baselines()
    env = scenario(place).make()
    found = {name: mean_return(classic_policy(name, env), place, split) for name in names(env)}
    constants = [Trained(lambda *_, a=a: ([a], None)) for a in range(env.action_space("agent_0").n)]
    known = {"constant": max(mean_return(one, place, split) for one in constants)}
    if "explorer" in found:  # With all walls in view, it takes the shortest way.
        explorer = classic_policy("explorer", scenario(place).make(view_radius=env.width))
        known["optimum"] = mean_return(explorer, place, split, view_radius=env.width)
    return {**known, "uniform": found["uniform"], "scripted": max(found.values())}


def table(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return a Markdown table of runs with one row per game or scenario and split."""
    rows: dict[tuple[str, str], dict[str, float | records.Interval]] = {}
    for run, split in product(select(runs, {}, ["game", "algorithm"]), SPLITS):
        place = run["game"], split
        rows[place] = rows.get(place) or references(*place)
        rows[place][run["algorithm"]] = run[split].interval
    cells = (
        [f"`{place}`, {split}", *(f"{row[one]:.3f}" if one in row else "" for one in COLUMNS)]
        for (place, split), row in rows.items()
    )
    return records.table(("game, split", *COLUMNS), cells)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train what `--runs` lacks, append each run to its file, and print the table of all runs."""
    parser = records.parser(__doc__)
    parser.add_argument("--seeds", nargs="+", type=int, default=range(10), metavar="SEED")
    parser.add_argument("--runs", type=Path, required=True, metavar="FILE", help="JSON lines")
    options = parser.parse_args(arguments)
    options.runs.touch()
    runs = [json.loads(line) for line in options.runs.read_text("utf-8").splitlines()]
    known = {(run["seed"], run["game"], run["algorithm"]) for run in runs}
    games, models = PLAN["games"], [seed for seed in options.seeds if seed < PLAN["model_seeds"]]
    plan = {*product(options.seeds, SCENARIOS, [IPPO]), *product(models, games, [MODEL])}
    plan.update(product(options.seeds, games, CLASSIC))
    for seed, place, name in sorted(plan - known):
        learn = model_trained if name == MODEL else partial(trained, algorithm=name)
        scores, rewards = learn(seed, place)
        curve = [float(np.mean(part)) for part in np.array_split(rewards, PLAN["points"])]
        run = {"game": place, "algorithm": name, "seed": seed, **scores, "curve": curve}
        runs.append(run)
        with options.runs.open("a", encoding="utf-8") as file:
            file.write(json.dumps(run) + "\n")
    return records.keep(table(runs), options)


if __name__ == "__main__":
    raise SystemExit(main())
