"""Population-based training: clear losers go on from winners, with settings of their own."""

import asyncio

import numpy as np
import pytest
import torch
from pettingzoo.utils import BaseParallelWrapper

from srl_envs import registry
from srl_extensions.research.population import PERTURBATIONS, population, significantly_better
from srl_train.build import build_run
from srl_train.errors import ConfigError, UpdateError
from srl_train.metrics import read_metrics
from srl_train.round import train_round
from srl_train.trainer import Trainer
from srl_train.updates import RoundContext
from tests.srl_train.run_state import everything, same, without_times


def exchanged(strategy, returns_of_rounds, models="ab"):
    """What is copied after each round, and the last state."""
    state, found = strategy.init(tuple(models)), []
    for number, returns in enumerate(returns_of_rounds):
        copies, state = strategy.exchange(state, RoundContext(number, 0, {}, returns=returns))
        found.append(copies)
    return found, state


def test_significantly_worse_models_copy_better_ones():
    strategy = population(every=2, perturb=("learning_rate", "beta"))
    rounds = [{"a": [1.0, 1.2, 0.9], "b": [-1.0, -1.1, -1.0]}] * 4
    [none, first, still_none, second], state = exchanged(strategy, rounds)
    assert none == still_none == {} and state == {"returns": {"a": [], "b": []}}
    for copies in (first, second):
        assert copies.keys() == {"b"} and copies["b"].source == "a"
        assert copies["b"].factors.keys() == {"learning_rate", "beta"}
        assert {*copies["b"].factors.values()} <= {*PERTURBATIONS}
    assert exchanged(strategy, rounds)[0] == [none, first, none, second], "drawn from the seed"


def test_small_differences_are_not_significant():
    assert not significantly_better([5.0] * 4, [0.0] * 9), "four starts"
    assert significantly_better([5.0] * 5, [0.0] * 9)
    assert not significantly_better([0.1 + 0.2] * 5, [0.3] * 5), "rounding"
    # a: mean 2, error sqrt(2.5 / 5) = .71; b: mean 0, the same: 2 is two errors of the difference.
    assert not significantly_better([0.0, 1.0, 2.0, 3.0, 4.0], [-2.0, -1.0, 0.0, 1.0, 2.0])
    assert significantly_better([3.0, 4.0, 5.0, 6.0, 7.0], [-2.0, -1.0, 0.0, 1.0, 2.0])
    rng = np.random.default_rng(0)
    pairs = [(rng.standard_normal(10), rng.standard_normal(10)) for _ in range(1_000)]
    assert sum(significantly_better(one, other) for one, other in pairs) < 10
    assert sum(significantly_better(one + 2, other) for one, other in pairs) > 800


class Unequal(BaseParallelWrapper):
    """The first agent earns 1 a turn and the other nothing, but for an earning of both."""

    def step(self, actions):
        agents = list(self.env.agents)
        seen, rewards, *rest = self.env.step(actions)
        return seen, {a: rewards[a] + 5.0 * (a == "agent_0") for a in agents}, *rest


def unequal():
    return Unequal(registry.make("coop_compete_pair_v0", num_agents=2, max_cycles=2))


@pytest.fixture
def evolving(short_run):
    """Makes a configuration in which model_1 always falls behind."""

    def make(**settings):
        usual = {
            "updates__strategy": "population", "updates__every": 1, "algorithm__beta": 0.1,
            "updates__perturb": ["learning_rate", "beta", "clip_range"],
            "rollout__group_size": 2, "rollout__groups_per_round": 5,
        }  # fmt: skip
        return short_run(**{**usual, **settings})

    return make


@pytest.mark.parametrize(
    "settings",
    [{}, {"algorithm__name": "ppo", "algorithm__entropy_coef": 0.1}],
    ids=["grpo", "ppo"],
)
def test_weights_optimizer_and_settings_are_copied_and_changed(evolving, settings):
    run = build_run(evolving(**settings), unequal)
    rows = [train_round(run, 0).row["models"]]
    better, worse = (run.learners[name] for name in ("model_0", "model_1"))
    assert same(better.weights(), worse.weights())
    states = [one.optimizer_state()["state"] for one in (better, worse)]
    assert same(*states)
    for entry, other in zip(states[0].values(), states[1].values(), strict=True):
        assert entry["exp_avg"].data_ptr() != other["exp_avg"].data_ptr(), "copies, not the same"
    assert [own["copied_from"] for own in rows[0].values()] == [None, "model_0"]
    before, after = (own["settings"] for own in rows[0].values())
    changed = {name: after[name] / was for name, was in before.items() if was}
    for name in ("learning_rate", "beta", "clip_range"):
        assert changed[name] == pytest.approx(0.8) or changed[name] == pytest.approx(1.25)
    assert settings == {} or changed["entropy_coef"] == 1
    trainer = worse._trainer
    assert (trainer.beta, trainer.epsilon_low) == (after["beta"], after["clip_range"])
    assert trainer.optimizer.param_groups[0]["lr"] == after["learning_rate"]
    run.next_round = 1
    rows.append(train_round(run, 1).row["models"])
    assert rows[1]["model_1"]["learning_rate"] == pytest.approx(after["learning_rate"])
    assert run.versions == {"model_0": 2, "model_1": 4}


def test_a_resumed_run_is_equal_to_the_bit(evolving, tmp_path):
    config = evolving(updates__every=2, rounds=4, checkpoints__every=1)
    whole = Trainer(config, tmp_path / "whole", make_env=unequal)
    whole.fit()
    part = Trainer(config, tmp_path / "part", make_env=unequal)
    for _ in range(3):
        part.train_round()
    asyncio.run(part.shutdown())
    rest = Trainer(config, tmp_path / "part", make_env=unequal)
    rest.load_checkpoint()
    rest.fit()
    assert same(everything(rest.run), everything(whole.run))
    rows, others = (read_metrics(one.files.metrics) for one in (whole, rest))
    assert without_times(rows) == without_times(others)
    assert [row["models"]["model_1"]["copied_from"] for row in rows] == [None, "model_0"] * 2


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"models__count": 1}, "got 'population' for 1 model"),
        ({"updates__every": 0}, "updates.every: "),
        ({"updates__perturb": ["gamma"]}, "updates.perturb.*got 'gamma'"),
        ({"updates__perturb": ["entropy_coef"]}, "got 'entropy_coef', of which.*model_0 has none"),
        ({"algorithm__beta": 0.0}, "got 'beta', of which the algorithm of model_0 has none"),
        ({"algorithms": {"model_1": {"name": "ppo", "beta": 0.1}}}, "models of several algorithms"),
    ],
)
def test_wrong_settings_are_refused(evolving, settings, told):
    with pytest.raises(ConfigError, match=told):
        evolving(**settings)


def test_unlike_models_and_bad_numbers_are_refused():
    with pytest.raises(UpdateError, match="a and b cannot be averaged"):
        population().check({"a": {"w": torch.ones(1)}, "b": {"w": torch.ones(2)}})
    with pytest.raises(ConfigError, match="population every"):
        population(every=0)
