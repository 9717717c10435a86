"""A mixture plays each game as one of its policies, drawn by its chances, for all its agents."""

from collections import Counter

import pytest

from srl_agents.episode import Decision
from srl_agents.partners import Mixture, WithPartners
from srl_agents.rollout import play_many
from srl_envs import team_battle_v0

REDS = ("red_0", "red_1")


class Waiting:
    """Plays one action, after a wait."""

    def __init__(self, action):
        self.action, self.left, self.asked = action, 0, []

    def start(self, seed):
        return seed

    async def act(self, seen, states):
        self.asked.append([one.agent for one in seen])
        decisions = [Decision(self.action, text=f"{self.action} {state}") for state in states]
        return decisions, [state + 1 for state in states]

    def leave(self, state):
        self.left += 1


def make_env():
    return team_battle_v0.parallel_env(team_size=2, max_cycles=3)


def played(mixture, games):
    other = Waiting(0)
    seats = {agent: mixture if agent in REDS else other for agent in make_env().possible_agents}
    return play_many(make_env, seats, list(range(games)))


def actions(episode):
    return {step.decision.action for agent in REDS for step in episode.steps_of(agent)}


def test_every_game_is_played_by_one_that_was_drawn():
    policies = {"a": Waiting(0), "b": Waiting(1), "c": Waiting(1)}
    mixture = Mixture("past", policies, [0.25, 0.75, 0.0])
    episodes = played(mixture, 80)
    assert all(len(actions(episode)) == 1 for episode in episodes), "one for both agents, each turn"
    drawn = Counter(action for episode in episodes for action in actions(episode))
    assert 48 <= drawn[1] <= 72, drawn  # of 80 by 3/4, within three standard deviations
    assert policies["b"].left == 2 * drawn[1] and policies["c"].left == 0
    assert policies["a"].asked == [list(REDS)] * (3 * drawn[0]), "asked once a turn"
    assert {episode.seats["red_1"] for episode in episodes} == {"past"}
    again = played(mixture, 80)
    assert list(map(actions, again)) == list(map(actions, episodes))


def test_a_partner_of_a_training_game_is_drawn_at_its_reset():
    mixture = Mixture("past", {"a": Waiting(0), "b": Waiting(1)}, [0.5, 0.5])
    game = WithPartners(make_env(), dict.fromkeys(("blue_0", "blue_1"), mixture))
    drawn = set()
    for seed in range(12):
        game.reset(seed=seed)
        memories = [game._memories[agent].name for agent in ("blue_0", "blue_1")]
        assert len(set(memories)) == 1
        drawn |= set(memories)
    assert drawn == {"a", "b"}


@pytest.mark.parametrize("chances", [[], [1.0], [0.5, 0.6]])
def test_chances_have_to_fit(chances):
    with pytest.raises(ValueError):
        Mixture("past", {"a": Waiting(0), "b": Waiting(1)}, chances).start(0)
