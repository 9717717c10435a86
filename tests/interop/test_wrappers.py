"""Every game of the catalogue through every framework's own wrapper for PettingZoo."""

import numpy as np
import pytest

from srl_envs import make, names, registry
from tests.srl_envs.kinds import writes

pytestmark = pytest.mark.interop
SHORT = {"max_cycles": 12}
# Frameworks of arrays do not take texts.
NAMES = [name for name in names() if not writes(name)]
NOT_INSTALLED = "is not installed: make test-interop"


def in_turns(name, **parameters):
    return registry.as_module(name).env(**parameters)


@pytest.mark.parametrize("name", NAMES)
def test_supersuit(name):
    supersuit = pytest.importorskip("supersuit", reason=f"supersuit {NOT_INSTALLED}")
    vector = supersuit.pettingzoo_env_to_vec_env_v1(make(name, **SHORT))
    vector = supersuit.concat_vec_envs_v1(vector, 2, num_cpus=0, base_class="gymnasium")
    vector.reset(seed=0)
    ends = 0
    for _ in range(30):
        _, rewards, terminations, truncations, _ = vector.step(np.zeros(vector.num_envs, int))
        assert np.isfinite(rewards).all()
        ends += int((terminations | truncations).sum())
    assert ends >= 2 * vector.num_envs  # episodes continue after resets


@pytest.mark.filterwarnings("ignore:PettingZoo in TorchRL is tested using:UserWarning")
@pytest.mark.parametrize("obs_mode", ["vector", "dict"])
@pytest.mark.parametrize("form", [make, in_turns])
@pytest.mark.parametrize("name", NAMES)
def test_torchrl(name, form, obs_mode):
    module = pytest.importorskip("torchrl.envs", reason=f"torchrl {NOT_INSTALLED}")
    game = form(name, obs_mode=obs_mode, **SHORT)
    env = module.PettingZooWrapper(game, seed=0, use_mask=form is in_turns)
    module.check_env_specs(env)
    played = env.rollout(200)
    for group in env.group_map:  # seats whose names differ in their number only
        assert played["next", group, "reward"].isfinite().all()
    acts = 1 if form is make else len(game.possible_agents)
    assert played["next", "done"][-1].all() and len(played) <= acts * SHORT["max_cycles"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["ParallelPettingZooEnv", "PettingZooEnv"])
def test_rllib(name, kind):
    module = pytest.importorskip(
        "ray.rllib.env.wrappers.pettingzoo_env", reason=f"ray {NOT_INSTALLED}"
    )
    form = make if kind == "ParallelPettingZooEnv" else in_turns
    env = getattr(module, kind)(form(name, **SHORT))
    observations, _ = env.reset(seed=0)
    over = False
    while not over:
        actions = {agent: env.get_action_space(agent).sample() for agent in observations}
        observations, rewards, terminations, truncations, _ = env.step(actions)
        assert all(map(np.isfinite, rewards.values()))
        over = terminations["__all__"] or truncations["__all__"]


@pytest.mark.parametrize("obs_mode", ["vector", "dict"])
@pytest.mark.parametrize("name", NAMES)
def test_tianshou(name, obs_mode):
    module = pytest.importorskip("tianshou.env", reason=f"tianshou {NOT_INSTALLED}")
    env = module.PettingZooEnv(in_turns(name, obs_mode=obs_mode, **SHORT))
    seen, _ = env.reset()
    generator, over = np.random.default_rng(0), False
    while not over:
        action = int(generator.choice(np.flatnonzero(seen["mask"])))
        seen, rewards, terminated, truncated, _ = env.step(action)
        assert np.isfinite(rewards).all()
        over = terminated or truncated
