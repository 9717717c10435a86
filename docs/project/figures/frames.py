"""Generator of the rendered frames in the README, one per environment.

    python docs/project/figures/frames.py    writes docs/project/figures/frames/<environment>.png

Each picture shows an environment after a few steps of random play with seed 0.
"""

from __future__ import annotations

from pathlib import Path

from PIL import Image

import srl_envs

FOLDER = Path(__file__).resolve().parent / "frames"
WIDTH = 240  # pixels
ROUNDS = 6
ENVIRONMENTS = {
    "coop_compete_v0": {},
    "team_battle_v0": {"warmup_episodes": 10},
    "staged_v0": {"warmup_episodes": 20},
    "bandit_v0": {},
    "maze_v0": {},
    "maze_race_v0": {},
    "social_trading_v0": {},
    "social_negotiation_v0": {},
}


def frame(name: str, **parameters: object) -> Image.Image:
    """Return the environment's picture after ROUNDS steps of random play, WIDTH pixels wide."""
    env = srl_envs.make(name, render_mode="rgb_array", **parameters)
    env.reset(seed=0)
    for agent in env.possible_agents:
        env.action_space(agent).seed(sum(agent.encode()))
    for _ in range(ROUNDS):
        if env.agents:
            env.step({agent: env.action_space(agent).sample() for agent in env.agents})
    picture = Image.fromarray(env.render())
    env.close()
    height = round(picture.height * WIDTH / picture.width)
    return picture.resize((WIDTH, height), Image.Resampling.LANCZOS)


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, parameters in ENVIRONMENTS.items():
        small = frame(name, **parameters).convert("P", palette=Image.Palette.ADAPTIVE, colors=64)
        small.save(FOLDER / f"{name}.png", optimize=True)
