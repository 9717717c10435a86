"""More models than agents: drawn models learn from their episodes, also after a resume."""

import copy

import pytest
from pettingzoo.utils import BaseParallelWrapper

from srl_envs import registry
from srl_train.build import build_run
from srl_train.config.yaml_file import from_tree
from srl_train.errors import ConfigError
from srl_train.metrics import read_metrics
from srl_train.round import train_round
from tests.srl_train.run_state import (
    everything,
    resumed_and_whole,
    same,
    weights,
    without_times,
)

AGENTS = ("agent_0", "agent_1")


@pytest.fixture
def drawn(short_run):
    """Makes a configuration of three models, drawn for two agents."""

    def make(name="uniform", **settings):
        usual = {"models__count": 3, "matchmaking__name": name, "rollout__group_size": 2,
                 "rollout__groups_per_round": 2}  # fmt: skip
        return short_run(**{**usual, **settings})

    return make


def played(run, rounds):
    results = []
    for number in range(rounds):
        results.append(train_round(run, number))
        run.next_round = number + 1
    return results


def test_drawn_models_learn_from_their_own_episodes(drawn):
    run = build_run(drawn(models__adapters={"rank": 2}, rollout__groups_per_round=1))
    before = weights(run)
    [result] = played(run, 1)
    one, other = result.episodes
    assert one.seats == other.seats and len(set(one.seats.values())) == 2
    for agent, model in one.seats.items():
        assert one.steps_of(agent)[0].decision.tokens.model.adapter == model
    for model, own in result.row["models"].items():
        playing = model in one.seats.values()
        assert own["games"] == (2 if playing else 0) and own["samples"] == (2 if playing else 0)
        assert own["updated"] == playing == (not same(before[model], weights(run)[model]))
        assert (own["raw_reward"] is None) == (not playing)
        assert own["seats"] == list(AGENTS)
    assert sum(total.episodes for total in run.totals.values()) == 4
    assert {m for m, n in run.versions.items() if n} == set(one.seats.values())


def test_a_resumed_run_draws_the_same_models(drawn, tmp_path):
    rest, whole = resumed_and_whole(drawn("uniform", rounds=2), tmp_path)
    assert same(everything(rest.run), everything(whole.run))
    rows = [read_metrics(one.files.metrics) for one in (rest, whole)]
    assert without_times(rows[0]) == without_times(rows[1])


class Unequal(BaseParallelWrapper):
    """Rewards of 1 per step for the first agent and 0 for the other, for all actions."""

    def step(self, actions):
        agents = list(self.env.agents)
        seen, _, *rest = self.env.step(actions)
        return seen, {agent: float(agent == "agent_0") for agent in agents}, *rest


def test_rotation_balances_unequal_agents(short_run):
    def make():
        return Unequal(registry.make("coop_compete_pair_v0", num_agents=2, max_cycles=2))

    earned = {}
    for rotate in (False, True):
        config = short_run(
            matchmaking__name="rotating" if rotate else "fixed",
            rollout__groups_per_round=2,
            updates__strategy="selective",
        )
        run = build_run(config, make)
        [result] = played(run, 1)
        earned[rotate] = [own["raw_return"] for own in result.row["models"].values()]
        first = [episode.seats["agent_0"] for episode in result.episodes]
        assert first == ["model_0"] * 4 + [f"model_{rotate:d}"] * 4
        assert [own["samples"] for own in result.row["models"].values()] == [8, 8]
    assert earned == {False: [2.0, 0.0], True: [1.0, 1.0]}


@pytest.mark.parametrize(
    "change, told",
    [
        ({}, "seats: every model must play an agent, but model_2"),
        (
            {"matchmaking": {"name": "uniform"}, "seats": dict.fromkeys(AGENTS, "model_0")},
            "seats: matchmaking uniform",
        ),
        (
            {"matchmaking": {"name": "uniform"},
             "models": {"count": 3, "agent_sampling": {"agent_0": {"temperature": 0.5}}}},
            "models.agent_sampling: model_0",
        ),
    ],
)  # fmt: skip
def test_wrong_settings_are_refused(change, told):
    tree = {"models": {"count": 3}, "environment": {"options": {"num_agents": 2}}}
    with pytest.raises(ConfigError, match=told):
        build_run(from_tree(copy.deepcopy(tree) | change))
