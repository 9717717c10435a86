"""What happens to an environment whose episode has ended."""

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from srl_envs import vector
from srl_envs.errors import EnvError
from tests.srl_envs.vector.singles import Singles, compared, same_observations, same_outcome

# Of each kind: ended by the clock, by the players, and with infos that only the last round has.
GAMES = [
    ("coop_compete_v0", {"max_cycles": 4}),
    ("team_battle_v0", {"max_cycles": 4, "warmup_episodes": 1}),
    ("bandit_v0", {"max_cycles": 4}),
    ("maze_race_v0", {"max_cycles": 9, "layout": ("A.G", "...")}),
    ("maze_v0", {"max_cycles": 9, "width": 3, "height": 3, "split": "any"}),
    ("social_negotiation_v0", {"max_cycles": 4}),
]


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED])
@pytest.mark.parametrize(("name", "parameters"), GAMES)
def test_all_modes_do_what_a_loop_over_single_environments_does(name, parameters, mode):
    compared(name, 4, 24, mode, **parameters)


@pytest.mark.parametrize(("name", "parameters"), GAMES)
def test_environments_that_were_reset_apart_stay_the_single_ones(name, parameters):
    from srl_envs import make

    games = vector.make(name, 3, **parameters)
    singles = Singles(lambda: make(name, **parameters), 3, AutoresetMode.NEXT_STEP)
    generator = np.random.default_rng(0)
    games.reset(0)
    singles.reset([0, 1, 2])
    for turn in range(40):
        actions = generator.integers(0, games.single_action_space.n, (3, games.num_agents))
        outcome = games.step(actions)
        singles.step(actions)
        same_outcome(outcome, singles)
        if turn in (1, 4, 11, 18):  # in the middle of an episode, with and without a seed
            mask = generator.random(3) < 0.5
            mask[turn % 3] = True
            seeds = [turn, None, turn] if turn < 10 else [None] * 3
            observations, infos = games.reset(seeds, mask=mask)
            singles.reset(seeds, only=mask)
            same_observations(observations, singles)
            assert (infos["_action_mask"] == mask[:, None]).all()


def test_disabled_refuses_to_play_on():
    games = vector.make("bandit_v0", 2, AutoresetMode.DISABLED, max_cycles=2)
    games.reset(0)
    actions = np.zeros((2, 1), int)
    games.step(actions)
    games.reset(mask=np.array([True, False]))
    games.step(actions)
    with pytest.raises(EnvError, match="episode of environment 1 has ended: reset"):
        games.step(actions)
    games.reset(mask=np.array([False, True]))
    games.step(actions)
