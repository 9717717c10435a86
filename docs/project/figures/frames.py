"""Generator of the rendered frames in the README, one per environment.

    python docs/project/figures/frames.py    writes docs/project/figures/frames/<environment>.png

Each picture shows an environment after a few steps of random play with seed 0.
"""

from __future__ import annotations

from pathlib import Path

from PIL import Image

import srl_envs

FOLDER = Path(__file__).resolve().parent / "frames"
ROUNDS = 6
ENVIRONMENTS = ("coop_compete_v0", "maze_v0", "social_trading_v0")


def frame(name: str) -> Image.Image:
    """Return the environment's picture after ROUNDS steps of random play."""
    env = srl_envs.make(name, render_mode="rgb_array")
    env.reset(seed=0)
    for agent in env.possible_agents:
        env.action_space(agent).seed(sum(agent.encode()))
    for _ in range(ROUNDS):
        if env.agents:
            env.step({agent: env.action_space(agent).sample() for agent in env.agents})
    picture = Image.fromarray(env.render())
    env.close()
    return picture


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in ENVIRONMENTS:
        frame(name).save(FOLDER / f"{name}.png", optimize=True)
