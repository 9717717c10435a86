"""OpenSpiel's games as environments, and exact exploitability."""

import json
import math
import pickle
import runpy

import numpy as np
import pyspiel
import pytest
from open_spiel.python.algorithms import exploitability
from open_spiel.python.policy import UniformRandomPolicy
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test

from srl_agents.errors import PolicyError
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.sampling import Sampling
from srl_agents.llm.text_policy import TextPolicy
from srl_agents.policy import AgentObservation
from srl_agents.rollout import play
from srl_agents.scripted import Always, Uniform
from srl_envs import make, registry
from srl_envs.errors import EnvConfigError, UntrustedError
from srl_envs.text import ParseFailure
from srl_train.cli import main


@pytest.mark.filterwarnings("ignore:Observation")  # PettingZoo's, of Dict and of unbounded spaces
@pytest.mark.parametrize(
    "game", ["kuhn_poker", "matrix_pd", "goofspiel(num_cards=4)", "liars_dice"]
)
def test_official_tests(game):
    name = f"openspiel:{game}"
    for obs_mode in ("vector", "dict", "llm"):
        parallel_api_test(make(name, obs_mode=obs_mode), num_cycles=30)
    parallel_seed_test(lambda: make(name), num_cycles=30)
    api_test(registry.make_aec(name, obs_mode="dict"), num_cycles=30)


def test_an_episode_of_kuhn_poker():
    env = make("openspiel:kuhn_poker")
    observations, infos = env.reset(seed=0)
    assert env.text_view.answers("player_0") == ("Pass", "Bet")
    assert observations["player_0"]["text"].endswith("Legal answers: Pass, Bet")
    assert [infos[agent]["to_move"] for agent in env.agents] == [True, False]
    assert infos["player_1"]["action_mask"].tolist() == [1, 0]
    env.step({"player_0": 1, "player_1": 0})
    _, rewards, terminations, truncations, _ = env.step({"player_0": 0, "player_1": 1})
    assert sorted(rewards.values()) == [-2, 2]
    assert all(terminations.values()) and not any(truncations.values()) and not env.agents


@pytest.mark.parametrize(
    "game", ["leduc_poker", "repeated_game(stage_game=matrix_pd(),num_repetitions=3)"]
)
def test_rewards_sum_to_openspiels_returns(game):
    for seed in range(10):
        env = make(f"openspiel:{game}")
        env.reset(seed=seed)
        rng, earned = np.random.default_rng(seed), np.zeros(2)
        while env.agents:
            position = env.unwrapped._position
            legal = {agent: position.legal_actions(n) for n, agent in enumerate(env.agents)}
            _, rewards, *_ = env.step(
                {a: int(rng.choice(acts or [0])) for a, acts in legal.items()}
            )
            earned += list(rewards.values())
        assert earned.tolist() == env.unwrapped._position.returns()


def test_seeds_draw_the_cards():
    deals = set()
    for seed in range(40):
        env = make("openspiel:leduc_poker")
        env.reset(seed=seed)
        deals.add(tuple(env.unwrapped._position.history()))
    assert len(deals) > 15  # Of the 30 deals of two of six cards.


def test_kept_observations_are_neither_shared_nor_too_many(monkeypatch):
    env = make("openspiel:kuhn_poker")
    first = env.reset(seed=0)
    expected = repr(first)
    for seen, info in zip(*(by_agent.values() for by_agent in first), strict=True):
        for array in (seen["observation"], seen["action_mask"], info["action_mask"]):
            array[:] = 7
    assert repr(env.reset(seed=0)) == expected
    monkeypatch.setattr("srl_extensions.bridges.openspiel.MOST_KNOWN", 2)
    for seed in range(5):
        env.reset(seed=seed)
        assert len(env._known) <= 2
    assert repr(env.reset(seed=0)) == expected


def test_illegal_actions_are_replaced():
    env = make("openspiel:tic_tac_toe")
    env.reset(seed=0)
    env.step({"player_0": 4, "player_1": 0})
    *_, infos = env.step({"player_0": 0, "player_1": 4})
    assert infos["player_1"]["illegal"] and not infos["player_0"]["illegal"]
    assert env.unwrapped._position.history() == [4, 0]


def test_episodes_are_truncated():
    env = make("openspiel:tic_tac_toe", max_cycles=1)
    env.reset(seed=0)
    _, _, terminations, truncations, _ = env.step({"player_0": 0, "player_1": 0})
    assert all(truncations.values()) and not any(terminations.values())


def test_answers_are_numbers_if_names_depend_on_the_situation():
    env = make("openspiel:chess", max_cycles=4)
    observations, _ = env.reset(seed=0)
    assert env.text_view.answers("player_1")[89] == "89"
    assert "89 (a3)" in observations["player_1"]["text"]
    assert env.text_view.parse("player_1", "I move a pawn.\n89") == 89
    assert isinstance(env.text_view.parse("player_1", "I resign"), ParseFailure)


def test_copies_continue_alike():
    env = make("openspiel:leduc_poker")
    env.reset(seed=3)
    twin = pickle.loads(pickle.dumps(env))
    for _ in range(20):
        seen, twins = (
            env.step(dict.fromkeys(env.agents, 1)),
            twin.step(dict.fromkeys(twin.agents, 1)),
        )
        assert seen[1:4] == twins[1:4]
        if not env.agents:
            assert env.reset()[0]["player_0"]["text"] == twin.reset()[0]["player_0"]["text"]


@pytest.mark.parametrize(
    ("game", "named"),
    [
        ("no_such_game", "no_such_game"),
        ("kuhn_poker(gamblers=3)", "kuhn_poker"),
        ("mfg_crowd_modelling", "mean-field"),
        ("coin_game", "tensors"),
        ("crossword", "numbered actions"),
        ("hex(board_size=0)", "no legal actions"),
        ("repeated_game(stage_game=matrix_pd(),num_repetitions=-1)", "reserve"),
    ],
)
def test_unsupported_games(game, named):
    with pytest.raises(EnvConfigError, match=named):
        make(f"openspiel:{game}")


def test_untrusted_records_give_no_parameters():
    assert registry.remake("openspiel:kuhn_poker", {})
    with pytest.raises(UntrustedError, match="efg_game"):
        registry.remake("openspiel:efg_game(filename=/etc/passwd)", {})


@pytest.mark.parametrize(
    "game", ["kuhn_poker", "matrix_brps", "goofspiel(num_cards=3,imp_info=true)"]
)
def test_exploitability_of_uniform_play(game):
    env = make(f"openspiel:{game}")
    uniform = Uniform(env.unwrapped.game.num_distinct_actions())
    gains = env.unwrapped.exact_exploitability(dict.fromkeys(env.possible_agents, uniform))
    openspiels = env.unwrapped.game
    if openspiels.get_type().dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS:
        openspiels = pyspiel.convert_to_turn_based(openspiels)
    expected = exploitability.nash_conv(openspiels, UniformRandomPolicy(openspiels))
    assert sum(gains.values()) == pytest.approx(expected, abs=1e-12)


def test_probabilities_of_a_language_model_are_those_of_its_samples(tiny_folder):
    def make_env():
        return make("openspiel:kuhn_poker")

    backend = HuggingFaceBackend.load(tiny_folder)
    env = make_env()
    policy = TextPolicy(
        backend, env.text_view, constrained=True, sampling=Sampling(temperature=2.0)
    )
    gains = env.unwrapped.exact_exploitability(dict.fromkeys(env.possible_agents, policy))
    assert all(gain >= 0 for gain in gains.values()) and sum(gains.values()) > 0.1
    checked = 0
    for seed in range(20):
        episode = play(make_env(), dict.fromkeys(env.possible_agents, policy), seed=seed)
        assert episode.failure is None
        memories = {agent: policy.start(seed) for agent in env.possible_agents}
        for step in (step for turn in episode.turns for step in turn if step.decision.asked):
            decision = step.decision
            mask = step.observation["action_mask"]
            seen = AgentObservation(step.agent, step.observation, mask)
            chances = policy.probabilities(seen, memories[step.agent])
            sampled = math.exp(sum(decision.tokens.logprobs))
            assert chances.sum() == pytest.approx(1.0)
            assert chances[decision.action] == pytest.approx(sampled, rel=1e-4)
            memories[step.agent] = policy.continued(seen, memories[step.agent], decision.action)
            checked += 1
    assert checked > 40  # Some are second decisions, whose conversation has a first one.


def test_exploitability_needs_exact_policies():
    env = make("openspiel:kuhn_poker")
    with pytest.raises(PolicyError, match="player_0"):
        env.unwrapped.exact_exploitability(dict.fromkeys(env.possible_agents, Always(0)))


@pytest.mark.parametrize("game", ["catch", "oshi_zumo(coins=3,size=1)"])
def test_games_that_cannot_be_enumerated_are_refused(game):
    env = make(f"openspiel:{game}").unwrapped
    uniform = Uniform(env.game.num_distinct_actions())
    with pytest.raises(EnvConfigError, match="enumerate"):
        env.exact_exploitability(dict.fromkeys(env.possible_agents, uniform))


def test_exact_exploitability_by_the_command(tmp_path, capsys):
    command = ["exploit", "uniform", "--exact", "--environment"]
    assert main([*command, "openspiel:kuhn_poker", "--out", str(tmp_path / "kuhn")]) == 0
    found = json.loads((tmp_path / "kuhn" / "exploit.json").read_text())
    assert found["nash_conv"] == pytest.approx(11 / 12)
    assert "0.4583" in capsys.readouterr().out
    assert main([*command, "coop_compete_v0", "--out", str(tmp_path / "other")]) == 2
    assert "--exact" in capsys.readouterr().err


def test_games_are_checked_by_a_command():
    program = runpy.run_path("examples/interop/check_games.py")
    assert program["check"]("openspiel:kuhn_poker") == ""
    assert "cannot load" in program["check"]("openspiel:no_such_game")
    assert len(program["games_of"]("openspiel")) > 90
