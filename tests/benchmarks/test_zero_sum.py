"""Exploitability in OpenSpiel's games: known values, averages of strategies, sides, kept runs."""

import json

import numpy as np
import pytest

pytest.importorskip("pyspiel")

import pyspiel
from open_spiel.python import policy as openspiel_policy
from open_spiel.python.algorithms.expected_game_score import policy_value
from open_spiel.python.algorithms.exploitability import exploitability

from benchmarks import claim as claims
from benchmarks import zero_sum
from benchmarks.claim import Request
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.text_policy import TextPolicy
from srl_agents.llm.tiny import folder
from srl_agents.rollout import play_many
from srl_agents.scripted import Uniform
from srl_envs.env_checker import check_environment

KUHN = pyspiel.load_game("kuhn_poker")
JACK, QUEEN, KING = "012"


def poker(bets):
    """Return OpenSpiel's policy with these probabilities of a bet; 0.5 where there is none."""

    def chances(position):
        bet = bets.get(position.information_state_string(), 0.5)
        return {0: 1 - bet, 1: bet}

    return openspiel_policy.tabular_policy_from_callable(KUHN, chances)


@pytest.mark.parametrize("name", ["kuhn_poker", "matrix_brps"])
def test_conforms_to_the_environment_api(name):
    check_environment(lambda: zero_sum.EitherSide(name))


def test_average_of_policies_is_one_of_them_per_episode():
    members = [poker({JACK: 0.1, KING: 0.3}), poker({}), poker({QUEEN: 0.9, QUEEN + "pb": 0.8})]
    weights = [3.0, 2.0, 1.0]
    mixed = zero_sum.average(KUHN, members, weights)
    start = KUHN.new_initial_state()
    for other in [poker({}), poker({QUEEN + "pb": 1.0, JACK + "p": 0.0})]:
        for side in range(2):
            pairs = [[one, other] if side == 0 else [other, one] for one in (*members, mixed)]
            *own, of_mixed = (policy_value(start, pair)[side] for pair in pairs)
            assert of_mixed == pytest.approx(np.average(own, weights=weights))


@pytest.mark.parametrize(
    ("name", "gain"),
    # Against uniform play, the best responses to the moves earn 25/3, in Kuhn poker 1/2 and 5/12.
    [("matrix_brps", 25 / 3), ("kuhn_poker", 11 / 24)],
)
def test_exploitability_of_uniform_play(name, gain):
    env = zero_sum.EitherSide(name)
    uniform = Uniform(int(env.action_space("player_0").n))
    game, strategy = zero_sum.turn_based(env.game), zero_sum.strategy_of(env, uniform)
    gains = env.exact_exploitability(dict.fromkeys(env.possible_agents, uniform))
    assert exploitability(game, strategy) == pytest.approx(gain)
    assert sum(gains.values()) / 2 == pytest.approx(gain)


def test_agents_exchange_sides_and_rewards_are_shares():
    env, first = zero_sum.EitherSide("kuhn_poker"), set()
    rules = {env.text_view.rules(agent) for agent in env.possible_agents}
    assert len(rules) == 1
    for seed in range(8):
        observations, infos = env.reset(seed=seed)
        [mover] = [agent for agent in env.agents if infos[agent]["to_move"]]
        first.add(mover)
        cards = {agent: seen["text"][0] for agent, seen in observations.items()}
        env.step({agent: int(agent == mover) for agent in cards})
        seen, rewards, ended, _, _ = env.step({agent: int(agent != mover) for agent in cards})
        winner = max(cards, key=cards.get)
        assert all(ended.values()) and all(seen[a]["text"][0] == cards[a] for a in cards)
        assert rewards == {agent: 1.0 if agent == winner else -1.0 for agent in cards}
    assert first == {"player_0", "player_1"}


def test_strategy_has_the_played_probabilities():
    env = zero_sum.EitherSide("kuhn_poker")
    backend = HuggingFaceBackend.load(folder(lambda: env, steps=4), device="cpu")
    policy = TextPolicy(backend, env.text_view, constrained=True)
    strategy = zero_sum.strategy_of(env, policy)
    both = dict.fromkeys(env.possible_agents, policy)
    bets = {JACK: [], QUEEN: [], KING: []}
    for episode in play_many(lambda: zero_sum.EitherSide("kuhn_poker"), both, range(1500)):
        [step] = [step for step in episode.turns[0] if step.decision.asked]
        bets[step.observation["text"][0]].append(step.decision.action)
    for card, chosen in bets.items():
        assert np.mean(chosen) == pytest.approx(strategy.policy_for_key(card)[1], abs=0.07)


@pytest.mark.slow
def test_solvers_of_openspiel_approach_equilibrium_at_the_counted_steps():
    few, many = (zero_sum.solvers("kuhn_poker", steps) for steps in (480, 9600))
    # There are 24 decisions; an iteration of CFR visits them twice, one of MMD once.
    assert [row["iterations"] for row in few] == [10, 20]
    assert all(late["average"] < early["average"] for early, late in zip(few, many, strict=True))
    assert many[0]["average"] < 0.02


@pytest.mark.slow
def test_nfsp_of_openspiel_learns_in_the_counted_moves():
    pytest.importorskip("tree", reason="NFSP requires dm-tree")
    settings = {**claims.load("zero_sum").options["nfsp"], "anticipatory_param": 0.5}
    row = zero_sum.nfsp_run("kuhn_poker", {**settings, "moves": 1200, "seed": 0})
    assert 1200 <= row["answers"] < 1203 and row["average"] < row["average_1"]


@pytest.fixture
def trained(monkeypatch):
    """Settings of the runs that were trained; exploitability is the learning rate."""
    found = []

    def train_run(env, settings):
        found.append(settings)
        rate = settings.get("algorithm.learning_rate", 0.4)
        row = zero_sum.curve(KUHN, [rate] * zero_sum.POINTS, [rate] * zero_sum.POINTS)
        return row | {"start": 0.5, "answers": 96.0, "steps": 96.0, "cpu_seconds": 0.0}

    monkeypatch.setattr(zero_sum, "train_run", train_run)
    monkeypatch.setattr(zero_sum, "nfsp_run", train_run)
    return found


@pytest.mark.slow
def test_methods_are_tuned_alike_on_other_seeds_and_runs_are_kept(trained, tmp_path):
    claim = claims.load("zero_sum")
    request = Request(claim, claim.seeds, tmp_path)
    result = zero_sum.measure(request)
    grids, games = claim.options["grids"], claim.options["games"]
    assert len(set(map(len, grids.values()))) == 1 and [*grids] == [*claim.methods, "NFSP"]
    assert not set(claim.options["tuning_seeds"]) & set(claim.seeds)
    assert len(result.rows) == len(claim.methods) * sum(game["seeds"] for game in games.values())
    for method in claim.methods:
        best = min(setting["algorithm.learning_rate"] for setting in grids[method])
        assert {row["newest"] for row in result.rows if row["method"] == method} == {best}
    key = "rollout.groups_per_round"
    groups = {"seats.player_1" in one: one[key] for one in trained if key in one}
    assert groups[True] == 2 * groups[False] and {one.get("moves", 96) for one in trained} == {96}
    claim.record(result, request)
    count = len(trained)
    assert zero_sum.measure(request).rows == result.rows and len(trained) == count
    lines = (tmp_path / "runs.jsonl").read_text().splitlines()
    assert len(lines) == count + len(games) and all(map(json.loads, lines))
