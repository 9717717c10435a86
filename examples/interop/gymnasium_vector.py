"""Gymnasium's vector API on a game for one agent: Q-learning in eight copies of a maze at once.

python examples/interop/gymnasium_vector.py
"""

import gymnasium
import numpy as np

COPIES, STEPS, EVALUATED = 8, 1500, 200
DISCOUNT, RATE, CURIOSITY = 0.95, 0.3, 0.1

mazes = gymnasium.make_vec(
    "srl_envs:srl/MazeSimple-v0",
    num_envs=COPIES,
    vectorization_mode="sync",
    mask_walls=True,
    max_cycles=60,
)
actions = mazes.single_action_space.n
generator = np.random.default_rng(0)
values = {}  # situation -> what each action is worth


def row(situation):
    """The values of a cell (the observation starts with its column and row), by reference."""
    return values.setdefault(situation[:2].tobytes(), np.zeros(actions))


def play(steps, curiosity, learn):
    """Mean reward per step of masked epsilon-greedy play; `learn` updates the values as it goes."""
    seen, infos = mazes.reset(seed=0)
    over, rewards = np.zeros(COPIES, bool), []
    for _ in range(steps):
        mask = infos["action_mask"] == 1  # a wall blocks the moves that are masked
        worth = np.where(mask, np.array([row(situation) for situation in seen]), -np.inf)
        anything = generator.random(COPIES) < curiosity
        noise = np.where(mask, generator.random(mask.shape), -np.inf)
        chosen = np.where(anything, noise.argmax(axis=1), worth.argmax(axis=1))
        then, reward, terminations, truncations, infos = mazes.step(chosen)
        played = ~over  # the step after an end only resets (Gymnasium's NEXT_STEP mode)
        rewards.extend(reward[played])
        if learn:
            for copy in np.flatnonzero(played):
                mine = row(seen[copy])
                ahead = 0.0 if terminations[copy] else DISCOUNT * row(then[copy]).max()
                mine[chosen[copy]] += RATE * (reward[copy] + ahead - mine[chosen[copy]])
        seen, over = then, terminations | truncations
    return np.mean(rewards)


before = play(EVALUATED, curiosity=1.0, learn=False)
play(STEPS, CURIOSITY, learn=True)
after = play(EVALUATED, curiosity=0.0, learn=False)
print(f"random moves earned {before:.4f} a step, Q-learning after {STEPS} steps {after:.4f}")
