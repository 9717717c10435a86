import numpy as np
import pytest

from srl_agents.baselines import OurMethodPolicy
from srl_agents.baselines.opponent_model import PartnerModel
from srl_agents.baselines.our_method import OurMethodRuns

NOISE, ROUNDS = 0.05, 32


class Hidden:
    """Environment that fails on any access to it."""

    def __getattribute__(self, name):
        raise AssertionError(f"update() read env.{name}")

    def __eq__(self, other):
        raise AssertionError("update() compared env")

    __hash__ = None

    def __bool__(self):
        raise AssertionError("update() tested env")


def game(level, base=0.7):
    return np.array([[base + 0.25 * (1 - level), base - 0.1], [base - 0.1, base + 0.25 * level]])


def coin(q):
    return lambda t, own, other, generator: int(generator.random() < q)


def tit_for_tat(t, own, other, generator):
    return 1 if t == 0 else own


def contrary(t, own, other, generator):
    return 1 if t == 0 else 1 - own


def win_stay_lose_shift(t, own, other, generator):
    return 1 if t == 0 else (other if own == other else 1 - other)


def earned(partner, payoff, *, episodes=100, seed=0):
    """Return the policy's mean reward per round with a partner.

    `partner(t, policy's last action, partner's last action, generator)` returns an action.
    """
    policy, generator = OurMethodPolicy(seed=seed), np.random.default_rng(seed)
    total = 0.0
    for _ in range(episodes):
        trajectory, own, other = [], 0, 0
        for t in range(ROUNDS):
            reply = partner(t, own, other, generator)
            own, logprob = policy.act()
            other = reply
            policy.observe_opponent(other)
            reward = payoff[own, other] + NOISE * generator.standard_normal()
            trajectory.append((own, logprob, reward))
            total += reward
        policy.update(trajectory, Hidden())
    return total / episodes / ROUNDS


def self_play(row, column, *, episodes, seed, delay=0):
    """Return the mean rewards of two policies that play each other.

    `row[i, j]` and `column[i, j]` are the rewards of the row player's action i and the column
    player's action j. The second policy starts after `delay` rounds of random actions.
    """
    generator = np.random.default_rng(seed)
    players = [OurMethodPolicy(seed=2 * seed + place) for place in (0, 1)]
    totals, rounds = np.zeros(2), 0
    for _ in range(episodes):
        records = ([], [])
        for _ in range(ROUNDS):
            late = rounds < delay
            (a, log_a) = players[0].act()
            (b, log_b) = (int(generator.integers(2)), 0.0) if late else players[1].act()
            players[0].observe_opponent(b)
            if not late:
                players[1].observe_opponent(a)
            for place, own, logprob, pay in ((0, a, log_a, row), (1, b, log_b, column)):
                reward = pay[a, b] + NOISE * generator.standard_normal()
                if place == 0 or not late:
                    records[place].append((own, logprob, reward))
                totals[place] += reward
            rounds += 1
        for player, record in zip(players, records, strict=True):
            if record:
                player.update(record, Hidden())
    return totals / episodes / ROUNDS


PENNIES = np.eye(2)
STAG = np.array([[0.5, 0.5], [0.0, 1.0]])
BATTLE = np.array([[0.6, 0.0], [0.0, 1.0]])
DILEMMA = np.array([[0.3, 1.0], [0.0, 0.7]])
TURNS = np.array([[0.1, 1.0], [0.7, 0.1]])  # anti-coordination


@pytest.mark.parametrize(
    ("row", "column", "fair", "delay"),
    [
        (PENNIES, 1 - PENNIES, (0.5, 0.5), 0),
        (STAG, STAG.T, (1.0, 1.0), 18),
        (BATTLE, BATTLE[::-1, ::-1], (0.8, 0.8), 0),
        (DILEMMA, DILEMMA.T, (0.7, 0.7), 18),
        (TURNS, TURNS.T, (0.85, 0.85), 5),
    ],
    ids=["matching pennies", "stag hunt", "battle of the sexes", "prisoners", "taking turns"],
)
def test_self_play_reaches_the_fair_outcome(row, column, fair, delay):
    earned = self_play(row, column, episodes=100, seed=1, delay=delay)
    assert (earned > 0.95 * np.array(fair)).all()


@pytest.mark.parametrize(
    ("partner", "level", "best"),
    [
        (coin(1.0), 0.2, 0.75),
        (coin(0.0), 0.8, 0.75),
        (coin(0.3), 0.6, 0.7 + 0.7 * 0.2 - 0.1),
        (coin(0.7), 0.5, 0.7 + 0.7 * 0.225 - 0.1),
        (tit_for_tat, 0.8, 0.9),
        (tit_for_tat, 0.2, (31 * 0.9 + 0.6) / 32),
        (win_stay_lose_shift, 0.8, 0.9),
        (contrary, 0.6, (0.85 + 0.8) / 2),
    ],
)
def test_plays_the_best_response(partner, level, best):
    assert earned(partner, game(level)) > 0.985 * best


def test_leads_a_learner(monkeypatch):
    class Follower:
        """Partner that moves its logit toward the policy's actions, and competes more at first."""

        def __init__(self):
            self.logit, self.push = -0.5, 0.0

        def __call__(self, t, own, other, generator):
            if t == 0:
                p = 1 / (1 + np.exp(-self.logit))
                self.logit += 5.0 * p * (1 - p) * self.push / ROUNDS
                self.push = 0.0
            else:
                self.push += 2 * own - 1
            return int(generator.random() < 1 / (1 + np.exp(-self.logit)))

    with_leading = earned(Follower(), game(0.8))
    assert with_leading > 0.95 * 0.9
    monkeypatch.setattr(PartnerModel, "learner", lambda model: np.zeros(1))
    without = earned(Follower(), game(0.8))
    assert with_leading > without + 0.05


def test_grim_trigger_is_not_provoked():
    def grim():
        state = {"kept": True}

        def play(t, own, other, generator):
            state["kept"] = t == 0 or (state["kept"] and own == 1)
            return int(state["kept"])

        return play

    assert earned(grim(), np.array([[0.3, 1.0], [0.0, 0.7]])) > 0.97 * (0.7 * 31 + 1.0) / 32


def test_reward_stays_near_the_maximin_value_against_an_adversary():
    # The opponent evades every action of probability 1, so only mixing earns the value of 1/2.
    policy, generator = OurMethodPolicy(seed=4), np.random.default_rng(4)
    total = 0.0
    for episode in range(150):
        record = []
        for _ in range(ROUNDS):
            own, logprob = policy.act()
            evades = episode > 0 and logprob == 0.0
            other = 1 - own if evades else int(generator.random() < 0.5)
            policy.observe_opponent(other)
            reward = float(own == other) + NOISE * generator.standard_normal()
            record.append((own, logprob, reward))
            total += reward
        policy.update(record)
    assert total / 150 / ROUNDS > 0.94 * 0.5


def test_runs_in_array_form_equal_single_policies():
    runs, episodes = 4, 12
    generator = np.random.default_rng(5)
    together = OurMethodRuns([np.random.SeedSequence(seed) for seed in range(runs)])
    alone = [OurMethodPolicy(seed=seed) for seed in range(runs)]
    chance = np.array([0.1, 0.5, 0.9, 1.0])
    for _ in range(episodes):
        played = np.empty((runs, ROUNDS), np.int8)
        other = (generator.random((runs, ROUNDS)) < chance[:, None]).astype(np.int8)
        for t in range(ROUNDS):
            played[:, t], certain = together.act()
            assert set(certain) <= {0.0, 1.0}
            single = [policy.act() for policy in alone]
            assert single == [(int(action), 0.0) for action in played[:, t]]
            together.observe_opponent(other[:, t])
            for policy, action in zip(alone, other[:, t], strict=True):
                policy.observe_opponent(int(action))
        rewards = game(0.6)[played, other] + NOISE * generator.standard_normal(played.shape)
        together.update(played, rewards)
        for n, policy in enumerate(alone):
            policy.update([(int(a), 0.0, r) for a, r in zip(played[n], rewards[n], strict=True)])


def test_episodes_may_differ_in_length():
    policy = OurMethodPolicy()
    for rounds in (5, 1, 40, 3):
        record = []
        for _ in range(rounds):
            action, logprob = policy.act()
            policy.observe_opponent(0)
            record.append((action, logprob, 0.5))
        policy.update(record)


def test_wrong_calls_are_rejected():
    policy = OurMethodPolicy()
    with pytest.raises(ValueError, match="follows act"):
        policy.observe_opponent(1)
    action, _ = policy.act()
    with pytest.raises(ValueError, match=r"must be 0 .* got 2"):
        policy.observe_opponent(2)
    policy.observe_opponent(1)
    with pytest.raises(ValueError, match="must receive the 1 actions"):
        policy.update([(1 - action, 0.0, 1.0)])


@pytest.mark.parametrize(("name", "value"), [("momentum", 0), ("momentum", 1.1), ("actions", 1)])
def test_invalid_settings_are_rejected(name, value):
    with pytest.raises(ValueError, match=name):
        OurMethodPolicy(**{name: value})
