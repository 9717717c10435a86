"""Train tabular Q-learning with Gymnasium's vector API on eight copies of a maze.

python examples/interop/gymnasium_vector.py
"""

import gymnasium
import numpy as np

COPIES, STEPS, EVALUATED = 8, 1500, 200
DISCOUNT, RATE, EPSILON = 0.95, 0.3, 0.1

mazes = gymnasium.make_vec(
    "srl_envs:srl/MazeSimple-v0",
    num_envs=COPIES,
    vectorization_mode="sync",
    mask_walls=True,
    max_cycles=60,
)
actions = mazes.single_action_space.n
generator = np.random.default_rng(0)
q_values = {}  # position -> value of each action


def q_row(observation):
    """Return the table row of a cell. The observation starts with the cell's column and row."""
    return q_values.setdefault(observation[:2].tobytes(), np.zeros(actions))


def play(steps, epsilon, learn):
    """Play epsilon-greedily with action masks and return the mean reward per step.

    If `learn`, update the Q-values after each step.
    """
    observations, infos = mazes.reset(seed=0)
    over, rewards = np.zeros(COPIES, bool), []
    for _ in range(steps):
        mask = infos["action_mask"] == 1  # moves into walls are masked
        values = np.where(mask, np.array([q_row(each) for each in observations]), -np.inf)
        explore = generator.random(COPIES) < epsilon
        noise = np.where(mask, generator.random(mask.shape), -np.inf)
        chosen = np.where(explore, noise.argmax(axis=1), values.argmax(axis=1))
        next_observations, reward, terminations, truncations, infos = mazes.step(chosen)
        played = ~over  # the step after an end only resets (Gymnasium's NEXT_STEP mode)
        rewards.extend(reward[played])
        if learn:
            for copy in np.flatnonzero(played):
                row = q_row(observations[copy])
                future = 0.0
                if not terminations[copy]:
                    future = DISCOUNT * q_row(next_observations[copy]).max()
                row[chosen[copy]] += RATE * (reward[copy] + future - row[chosen[copy]])
        observations, over = next_observations, terminations | truncations
    return np.mean(rewards)


before = play(EVALUATED, epsilon=1.0, learn=False)
play(STEPS, EPSILON, learn=True)
after = play(EVALUATED, epsilon=0.0, learn=False)
print(f"reward per step: {before:.4f} for random moves, {after:.4f} after {STEPS} steps")
