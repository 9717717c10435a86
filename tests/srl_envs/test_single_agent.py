"""One-seat games in Gymnasium's own form and registry."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from srl_envs import registry
from srl_envs.errors import EnvConfigError
from srl_envs.wrappers import SingleAgentEnv, single_agent_env

NAMES = [name for name in registry.names() if registry.entry(name).gymnasium_id]
IDS = [registry.entry(name).gymnasium_id for name in NAMES]
OPTIONS = [{"obs_mode": mode} for mode in ("vector", "dict", "llm")]
OPTIONS += [{"max_cycles": 2, "render_mode": "ansi"}]
every_id = pytest.mark.parametrize("identity", IDS)


@every_id
@pytest.mark.parametrize("options", OPTIONS)
def test_passes_gymnasium_check_env(identity, options, capsys):
    check_env(gymnasium.make(identity, **options).unwrapped)


def test_gymnasium_finds_it_by_package_prefix():
    code = (
        "import gymnasium; env = gymnasium.make('srl_envs:srl/Maze-v0', width=5, height=7);"
        "env.reset(seed=0); print(env.unwrapped.game.level.height)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "7"


def test_single_agent_form_equals_parallel_form():
    single, parallel = gymnasium.make("srl/Maze-v0"), registry.make("maze_v0")
    seen, info = single.reset(seed=5)
    expected, infos = parallel.reset(seed=5)
    choice = np.random.default_rng(0)
    over = False
    while not over:
        assert np.array_equal(seen, expected["agent_0"])
        assert {k: v for k, v in info.items() if k != "action_mask"} == {
            k: v for k, v in infos["agent_0"].items() if k != "action_mask"
        }
        action = int(choice.integers(4))
        seen, reward, terminated, truncated, info = single.step(action)
        expected, rewards, terminations, truncations, infos = parallel.step({"agent_0": action})
        assert reward == rewards["agent_0"]
        assert terminated == terminations["agent_0"] and truncated == truncations["agent_0"]
        over = terminated or truncated


def test_action_masks_are_those_of_the_last_step():
    env = single_agent_env("maze_v0", width=5, height=5, mask_walls=True)
    _, info = env.reset(seed=0)
    met = set()
    for _ in range(8):
        masks = env.action_masks()
        assert masks.dtype == bool and masks.tolist() == info["action_mask"].astype(bool).tolist()
        met.add(tuple(masks))
        *_, info = env.step(int(np.flatnonzero(masks)[-1]))
    assert len(met) > 1


def test_games_with_several_agents_raise():
    with pytest.raises(EnvConfigError, match="num_agents"):
        single_agent_env("maze_race_v0")
    with pytest.raises(EnvConfigError, match="num_agents"):
        SingleAgentEnv(registry.make("team_battle_v0"))
    assert single_agent_env("staged_v0", num_agents=1).reset(seed=0)[0].shape == (9,)
