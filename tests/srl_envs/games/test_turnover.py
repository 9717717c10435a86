"""Agents that leave and join during an episode."""

import re

import numpy as np
import pytest
from pytest import approx

from srl_agents.llm.text_policy import TextPolicy
from srl_agents.llm.tiny import random_dialogues
from srl_agents.partners import with_scripted
from srl_agents.rollout import play_many
from srl_agents.scripted.registry import classic_policy, names
from srl_envs import registry, vector
from srl_envs.env_checker import check_environment
from srl_envs.errors import ConformanceError, EnvConfigError
from srl_envs.text import TextEnv
from srl_envs.wrappers import SingleAgentEnv
from srl_train.scores import roles_of
from tests.fakes import ByteTokenizer, ScriptedBackend

GAMES = ("coop_compete_v0", "coop_compete_pair_v0", "coop_compete_v1", "coop_compete_pair_v1")
every_game = pytest.mark.parametrize("name", GAMES)


def make(name="coop_compete_v0", **options):
    return registry.make(name, **{"turnover": 3, "max_cycles": 8, **options})


@every_game
@pytest.mark.parametrize("seed", range(5))
def test_places_change_hands_and_all_agents_take_part(name, seed):
    env, same = make(name), registry.make(name, max_cycles=8)
    places = len(same.possible_agents)
    assert len(env.possible_agents) == places + 3
    observations, _ = env.reset(seed=seed)
    gone, joins = set(), []
    while env.agents:
        acted = list(env.agents)
        assert len(acted) == places and set(observations) >= set(acted)
        observations, rewards, terminations, truncations, infos = env.step(dict.fromkeys(acted, 1))
        joined = [agent for agent in observations if agent not in acted]
        left = {agent for agent, ended in terminations.items() if ended}
        assert len(joined) == len(left) <= 1 and left <= set(acted)
        assert gone.isdisjoint(observations)
        gone |= left
        for agent in joined:
            first, own, others, reward, time, *_ = observations[agent]
            assert (first, own, others, reward) == (1, 0, 1, 0) and time == env.played / 8
            assert rewards[agent] == 0 and not truncations[agent]
            assert list(infos[agent]) == ["action_mask"] and agent in env.agents
            rows = dict(zip(env.possible_agents, env.state().reshape(places + 3, -1), strict=True))
            assert np.array_equal(rows[agent], observations[agent])
            assert not any(rows[other].any() for other in gone)
        joins += joined
    assert joins == env.possible_agents[places:] and len(gone) == 3
    assert {agent for agent, ended in truncations.items() if ended} == set(acted)


def test_places_are_drawn():
    def leavers(seed):
        env = make()
        env.reset(seed=seed)
        steps = [env.step(dict.fromkeys(env.agents, 1))[2] for _ in range(7)]
        return [agent for step in steps for agent, ended in step.items() if ended]

    assert leavers(1) == leavers(1)
    assert len({tuple(leavers(seed)) for seed in range(8)}) > 4


def test_agents_that_join_read_the_rules_and_that_they_joined():
    env = TextEnv(make(noise_std=0.0, render_mode="ansi"))
    env.reset(seed=0)
    joined = 0
    while env.agents:
        acted = list(env.agents)
        texts, *_ = env.step(dict.fromkeys(acted, "cooperate"))
        assert [line.split()[0] for line in env.render().splitlines()[1:]] == acted
        for agent in set(texts) - set(acted):
            joined += 1
            assert "Players may leave" in texts[agent]
            assert re.search(r"\nRound [2-8] of 8. You have just joined. Others co", texts[agent])
        assert all("joined" not in texts[agent] for agent in acted)
    assert joined == 3


def test_language_models_join():
    backend = ScriptedBackend(lambda request: "cooperate")
    policy = TextPolicy(backend, make("coop_compete_v1").text_view)
    seats = dict.fromkeys(make("coop_compete_v1").possible_agents, policy)
    one, same = play_many(lambda: make("coop_compete_v1"), seats, [4, 4])
    assert one.failure is None and one.returns() == same.returns()
    lengths = {agent: len(one.steps_of(agent)) for agent in seats}
    assert sum(lengths.values()) == 4 * 8 and all(lengths.values())
    assert sum(not end.truncated for end in one.ends.values()) == 3
    prompts = [ByteTokenizer().decode(request.context) for request in backend.requests]
    assert sum("just joined" in p and "chose to" not in p for p in prompts) == 2 * 3
    assert all("You are agent_" in prompt for prompt in prompts)


def test_dialogues_for_warm_starts_include_agents_that_join():
    dialogues = random_dialogues(make, games=2, turns=8, seed=0)
    assert len(dialogues) == 2 * 7
    assert sum("just joined" in dialogue.lines[0].words for dialogue in dialogues) == 2 * 3


@pytest.mark.parametrize("focal", ["agent_0", "agent_6"])
def test_partners_play_until_the_focal_agent_joins(focal):
    env = make(noise_std=0.0)
    partners = {a: "always_cooperate" for a in env.possible_agents if a != focal}
    alone = SingleAgentEnv(with_scripted(env, partners))
    seen, _ = alone.reset(seed=0)
    assert (seen[4] == 0) == (focal == "agent_0") and seen[0] == 1
    over = False
    while not over:
        seen, reward, terminated, truncated, _ = alone.step(1)
        over = terminated or truncated
        assert reward == approx(0.85)
    assert truncated == (focal == "agent_6")


def test_partners_play_on_between_two_focal_agents():
    env = make("coop_compete_pair_v0", turnover=6)
    partners = dict.fromkeys(env.possible_agents[1:-1], "tit_for_tat")
    game = with_scripted(env, partners)
    observations, _ = game.reset(seed=0)
    while game.agents:
        observations, *_ = game.step(dict.fromkeys(game.agents, 1))
    assert "agent_7" in observations and env.agents == []


def test_scripted_policies_join():
    env = make("coop_compete_v1", talk=1)
    for who in names(env):
        seats = dict.fromkeys(env.possible_agents, classic_policy(who, env))
        [episode] = play_many(lambda: make("coop_compete_v1", talk=1), seats, [2])
        assert episode.failure is None and all(episode.steps_of(agent) for agent in seats)


def test_vector_environments_mark_absent_agents_as_terminated():
    games, env = vector.make("coop_compete_v0", 1, turnover=3, max_cycles=8), make()
    games.reset(seed=0)
    env.reset(seed=0)
    while env.agents:
        observations, rewards, *_ = env.step(dict.fromkeys(env.agents, 1))
        seen, earned, terminations, truncations, _ = games.step(np.ones((1, 7), int))
        for place, agent in enumerate(env.possible_agents):
            assert earned[0, place] == rewards.get(agent, 0.0)
            if agent in observations:
                assert np.array_equal(seen[0, place], observations[agent])
            if env.agents:
                assert terminations[0, place] == (agent not in env.agents)
    assert (terminations | truncations).all() and truncations.sum() == 4


def test_words_of_agents_that_join():
    env = make(talk=1, num_agents=2, noise_std=0.0)
    env.reset(seed=0)
    while env.agents:
        acted = list(env.agents)
        observations, *_ = env.step({acted[0]: 3, acted[1]: 1})
        for agent, seen in observations.items():
            others = [other for other in env.possible_agents if other != agent]
            assert seen[7:].tolist() == [other == acted[0] for other in others]


def test_returns_of_agents_that_join_are_not_compared_with_others():
    roles = roles_of(make(num_agents=2))
    assert roles["agent_0"] == roles["agent_1"] and len(set(roles.values())) == 4


def test_baselines_are_those_of_the_places():
    for name in ("coop_compete_v0", "coop_compete_v1"):
        constant = registry.make(name, max_cycles=8).baselines()
        del constant["scripted"]  # Agents that join explore again.
        assert make(name).baselines() == constant


def test_turnover_is_below_the_number_of_rounds():
    with pytest.raises(EnvConfigError, match="turnover"):
        make(turnover=8)
    env = make()
    env.max_cycles = 3
    with pytest.raises(EnvConfigError, match="turnover"):
        env.reset()


def test_the_checker_finds_agents_that_return():
    class Returns(type(make())):
        def begin(self, options):
            super().begin(options)
            place, _ = next(iter(self._changes.values()))
            last = max(self._changes)
            self._changes[last] = (self._changes[last][0], self._seats[place])

    with pytest.raises(ConformanceError, match="returned"):
        check_environment(lambda: Returns(turnover=3, max_cycles=8))
