"""Games with hidden rules: their values, draws, observations, roles and splits."""

from importlib import import_module

import numpy as np
import pytest
from pytest import approx

from srl_agents.episode import Decision
from srl_agents.policy import AgentObservation
from srl_agents.scripted.registry import classic_policy
from srl_envs import registry
from srl_envs.errors import EnvConfigError
from srl_envs.games.coop_compete import CoopCompete
from srl_envs.scenarios import refuse_levels

NAMES = [name for name in registry.names() if name.endswith("_v1")]
CHOICES = [name for name in NAMES if name != "bandit_v1"]
every_name = pytest.mark.parametrize("name", NAMES)
every_choice = pytest.mark.parametrize("name", CHOICES)
every_split = pytest.mark.parametrize("split", ["train", "test"])


def fields(name):
    return import_module(registry.entry(name).module).OBSERVATION_FIELDS


def mean_reward(env, decide, number, seed=0):
    """Return the mean reward per agent and step of an episode with rule set `number`."""
    observations, _ = env.reset(seed=seed, options={"rule_set": number})
    earned = []
    while env.agents:
        actions = {agent: decide(agent, observations[agent]) for agent in env.agents}
        observations, rewards, *_ = env.step(actions)
        earned += rewards.values()
    return np.mean(earned)


def played_by(env, who):
    """Return a function from an agent and its observation to the action of a scripted policy."""
    policy, memory = classic_policy(who, env), {}

    def decide(agent, observation):
        if agent not in memory or observation[0] > 0.5:
            memory[agent] = policy.start(len(memory))
        decision = policy.decide(AgentObservation(agent, observation), memory[agent])
        assert isinstance(decision, Decision)
        return decision.action

    return decide


@every_name
@every_split
@pytest.mark.parametrize("rounds", [None, 8])
def test_there_is_room_between_constant_scripted_and_optimum(name, split, rounds):
    known = registry.make(name, split=split, **({"max_cycles": rounds} if rounds else {}))
    uniform, constant, scripted, optimum = known.baselines().values()
    assert 0 <= (constant - uniform) / (optimum - uniform) <= 0.61
    assert 0.3 < (scripted - constant) / (optimum - constant) < 0.9


@every_choice
@every_split
def test_values_equal_those_of_episodes_without_noise(name, split):
    env = registry.make(name, split=split, noise_std=0.0, max_cycles=5)
    known, numbers = env.baselines(), range(len(env.rule_sets))
    role = {"team_battle_v1": "blue", "staged_v1": "adversary"}.get(name, "first_round")
    at = fields(name).index(role)

    def value(decide):
        return np.mean([mean_reward(env, decide, number) for number in numbers])

    assert value(played_by(env, "explore_then_commit")) == approx(known["scripted"])
    constants = [
        value(lambda agent, seen, one=one, other=other: one if seen[at] > 0.5 else other)
        for one in (0, 1)
        for other in ((0, 1) if role != "first_round" else (one,))
    ]
    assert max(constants) == approx(known["constant"])
    generator = np.random.default_rng(0)
    random = [value(lambda agent, seen: int(generator.integers(2))) for _ in range(60)]
    assert np.mean(random) == approx(known["uniform"], abs=0.01)


def test_values_of_the_bandit_equal_means_of_episodes():
    env, numbers = registry.make("bandit_v1", num_agents=100), range(24)
    four_sigma = 4 * 0.5 / (100 * 64 * 24) ** 0.5
    policies = {"scripted": played_by(env, "win_stay_lose_shift"), "constant": lambda *_: 0}
    for known, policy in policies.items():
        got = np.mean([mean_reward(env, policy, number, seed=number) for number in numbers])
        # Successive rewards of the scripted policy are correlated.
        assert got == approx(env.baselines()[known], abs=2 * four_sigma)


@every_name
def test_splits_have_no_rule_set_in_common(name):
    module = import_module(registry.entry(name).module)
    train, test = module.DRAWN["train"], module.DRAWN["test"]
    assert not [one for one in train if one in test]
    assert [len(registry.make(name, split=s).rule_sets) for s in ("train", "test", "any")] == [
        len(train), len(test), len(train) + len(test),
    ]  # fmt: skip
    for split in ("test", "any"):
        with pytest.raises(EnvConfigError, match="split must be 'train' for training"):
            refuse_levels("environment", name, {"split": split}, registry.make(name, split=split))
    with pytest.raises(EnvConfigError, match="split must be one of 'train', 'test', 'any'"):
        registry.make(name, split="all")


def rule_sets(env, seed, count, steps=1):
    """Return the numbers of the rule sets of `count` episodes after a seeded reset."""
    numbers = []
    for episode in range(count):
        env.reset(seed=None if episode else seed)
        for _ in range(steps):
            infos = env.step(dict.fromkeys(env.agents, 1))[4]
        numbers.append(infos[env.possible_agents[0]]["rule_set"])
    return numbers


@every_name
def test_draws_are_uniform_and_depend_only_on_the_seed(name):
    env = registry.make(name)
    drawn = rule_sets(env, 5, 400)
    assert drawn == rule_sets(registry.make(name), 5, 400)
    assert drawn[:40] == rule_sets(env, 5, 40, steps=16)  # noise has another stream
    assert drawn != rule_sets(env, 6, 400)
    counts = np.bincount(drawn, minlength=len(env.rule_sets))
    assert counts.min() > 0 and counts.max() < 3 * 400 / len(counts)


def test_an_episode_has_the_rewards_and_noise_of_its_rule_set():
    env = registry.make("coop_compete_v1", max_cycles=400)
    bare = CoopCompete(cooperation_level=0.3, difficulty=0.5, max_cycles=400)
    env.reset(seed=3, options={"rule_set": 3})
    bare.reset(seed=3)
    for _ in range(400):
        rewards, expected = (one.step(dict.fromkeys(one.agents, 1))[1] for one in (env, bare))
        assert sorted(rewards.values()) == sorted(expected.values())


@every_name
def test_observations_and_texts_hide_the_rules(name):
    env = registry.make(name, obs_mode="llm", split="any")
    starts = set()
    for number in range(len(env.rule_sets)):
        observations, _ = env.reset(seed=0, options={"rule_set": number})
        starts.add(str(observations))
        text = env.text_view.rules("agent_0") + observations["agent_0"]["text"]
        assert "You are agent_0" in text and "ifficulty" not in text and "level" not in text
    assert len(starts) == 1
    seen = dict(zip(fields(name), observations["agent_0"]["observation"], strict=True))
    hidden = {"cooperation_level", "difficulty", "switched"} & set(seen)
    assert hidden and {seen[field] for field in hidden} == {-1}


@pytest.mark.parametrize(
    ("name", "argument"),
    [("coop_compete_v1", "difficulty"), ("bandit_v1", "observe_switch")],
)
def test_drawn_arguments_must_not_be_given(name, argument):
    with pytest.raises(EnvConfigError, match=f"{argument} must not be given with split='train'"):
        registry.make(name, **{argument: 0})
    with pytest.raises(EnvConfigError, match=r'options\["rule_set"\].*from 0 to'):
        registry.make(name).reset(options={"rule_set": 99})


@pytest.mark.parametrize(
    ("name", "field", "places"), [("staged_v1", "adversary", 2), ("team_battle_v1", "blue", 4)]
)
def test_roles_are_drawn_and_decide_the_rewards(name, field, places):
    env, at = registry.make(name, noise_std=0.0), fields(name).index(field)
    found = set()
    for seed in range(40):
        observations, _ = env.reset(seed=seed, options={"rule_set": 7})
        special = [agent for agent in env.agents if observations[agent][at] == 1]
        assert len(special) == places
        found.add(tuple(special))
        # Agents with the role cooperate, the others compete.
        observations, rewards, *_, infos = env.step({a: int(a in special) for a in env.agents})
        assert special == [agent for agent in env.possible_agents if observations[agent][at] == 1]
        assert {agent: observations[agent][1] for agent in rewards} == {
            agent: float(agent in special) for agent in rewards
        }
        paid = {tuple(round(rewards[a], 9) for a in rewards if (a in special) is is_special)
                for is_special in (True, False)}  # fmt: skip
        assert all(len(set(group)) == 1 for group in paid) and len(paid) == 2
        if name == "staged_v1":
            numbers = [f"agent_{number}" for number in infos["agent_0"]["adversaries"]]
            assert numbers == special
        else:
            team_b = [agent for agent, info in infos.items() if info["side"] == "team_b"]
            assert team_b == special
    assert len(found) > 15


def test_the_text_names_the_own_team_only():
    env = registry.make("team_battle_v1", max_cycles=2)
    observations, _ = env.reset(seed=0)
    for agent, seen in observations.items():
        team = "blue" if seen[fields("team_battle_v1").index("blue")] else "red"
        said = env.text_view.describe(agent, seen)
        assert said == f"Round 1 of 2. Your team is {team}. Nobody has chosen yet."
    assert env.teams is None


def test_negative_weights_by_hand():
    # All cooperate: .7 - 2 * (1 - .5), at least 0; all compete: .7 + 1
    env = registry.make("team_battle_v0", cooperation_weight=-2, noise_std=0.0)
    for action, reward in ((1, 0.0), (0, 1.7)):
        env.reset(seed=0)
        observations, rewards, *_ = env.step(dict.fromkeys(env.agents, action))
        assert rewards == approx(dict.fromkeys(rewards, reward))
        assert observations["red_0"] in env.observation_space("red_0")
