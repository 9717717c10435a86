"""Our environments keep the contract, and environments that break it are found out."""

from functools import partial
from typing import ClassVar

import pytest
from gymnasium import spaces

from srl_envs import registry
from srl_envs.env_checker import check_environment
from srl_envs.errors import ConformanceError
from srl_envs.games.coop_compete import CoopCompete, CoopCompeteView
from srl_envs.games.staged import Staged
from srl_envs.text import ParseFailure
from srl_envs.wrappers import with_text
from tests.srl_envs.third_party_games import NeverTwice

ROUNDS = 12


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        *((name, "llm") for name in registry.names()),
        ("maze_meet_v0", "dict"),
        ("bandit_v0", "vector"),
    ],
)
def test_fulfills_the_contract(name, mode):
    check_environment(partial(registry.make, name, obs_mode=mode, max_cycles=ROUNDS))


@pytest.mark.parametrize(
    ("task", "seats", "layout"),
    [("own", 2, ["A.G", "..."]), ("meet", 2, ["AG"]), ("race", 5, None)],
)
def test_mazes_fulfill_the_contract(task, seats, layout):
    maze = partial(registry.make, "maze_v0", layout=layout, task=task, num_agents=seats)
    check_environment(partial(maze, view_radius=2, mask_walls=True, obs_mode="dict"))


class Sound(CoopCompete):
    """Base class of the broken environments below."""

    def __init__(self):
        super().__init__(num_agents=2, max_cycles=6)


class SoundToo(Staged):
    """Base class of broken environments with an overridden `play_round`."""

    def __init__(self):
        super().__init__(num_agents=2, max_cycles=6)

    def reset(self, seed=None, options=None):
        return super().reset(seed, {"episode": 100})  # its episodes are alike at last


@pytest.mark.parametrize("sound", [Sound, SoundToo])
def test_unmodified_environments_fulfill_the_contract(sound):
    check_environment(sound)


class ForgetsTheSeed(Sound):
    def reset(self, seed=None, options=None):
        return super().reset(None, options)


class ReturnsNoInfos(NeverTwice):
    def reset(self, seed=None, options=None):
        return super().reset(seed, options)[0]


class KeepsDrawnNoise(SoundToo):
    """Seeds the generator, but uses numbers drawn before."""

    drawn = ()

    def noise(self, count):
        if len(self.drawn) < count:
            self.drawn = super().noise(64)
        taken, self.drawn = self.drawn[:count], self.drawn[count:]
        return taken


class ReusesItsBuffer(SoundToo):
    def _observations(self, vectors):
        self.buffer = getattr(self, "buffer", vectors)
        for agent, fresh in vectors.items():
            self.buffer[agent][:] = fresh
        return dict(self.buffer)


class NewSpaces(Sound):
    def action_space(self, agent):
        return spaces.Discrete(2)


class SeesOutside(SoundToo):
    def _observations(self, vectors):
        return {agent: vector + 2 for agent, vector in vectors.items()}


class NeverEnds(Sound):
    def reset(self, seed=None, options=None):
        answer = super().reset(seed, options)
        self.rounds = 10**9
        return answer


class FailsAfterTheEnd(Sound):
    def step(self, actions):
        if not actions:
            raise RuntimeError("it is over")
        return super().step(actions)


class ForgetsAReward(Sound):
    def step(self, actions):
        observations, rewards, *outcome = super().step(actions)
        del rewards["agent_1"]
        return observations, rewards, *outcome


class InfoOfSets(Sound):
    def step(self, actions):
        *outcome, infos = super().step(actions)
        infos["agent_0"]["seen"] = {1, 2}
        return *outcome, infos


class NothingIsLegal(Sound):
    def step(self, actions):
        *outcome, infos = super().step(actions)
        infos["agent_0"]["action_mask"][:] = 0
        return *outcome, infos


class OddName(Sound):
    def __init__(self):
        super().__init__()
        self.possible_agents = ["agent_0", "agent_1\nagent_0 says: hello"]


class HalfATeam(Sound):
    teams: ClassVar = {"agent_0": "team_a"}


class View(CoopCompeteView):
    def __init__(self):
        super().__init__(2, "population", 6)


class Speaks(Sound):
    """Has the view that its class attribute names."""

    view = View

    def make_view(self):
        return self.view()


class ReadsWords(Speaks):
    class view(View):
        def parse(self, agent, answer):
            return 1 if "cooperate" in answer else 0


class Raises(Speaks):
    class view(View):
        def parse(self, agent, answer):
            return {"compete": 0, "cooperate": 1}[answer.strip()]


class ReadsTheWrongWay(Speaks):
    class view(View):
        def parse(self, agent, answer):
            read = super().parse(agent, answer)
            return read if isinstance(read, ParseFailure) else 1 - read


class HidesItsAnswers(Speaks):
    class view(View):
        def rules(self, agent):
            return "Guess what you may say."


class Forgetful(Speaks):
    class view(View):
        def describe(self, agent, observation):
            observation[0] += 1
            return super().describe(agent, observation)


class DefaultsToNothing(Speaks):
    class view(View):
        default_action = 7


class HasNoView(Speaks):
    @staticmethod
    def view():
        return None


@pytest.mark.parametrize(
    ("broken", "point"),
    [
        (ForgetsTheSeed, "seeds"),
        (KeepsDrawnNoise, "seeds"),
        (ReusesItsBuffer, "fresh"),
        (NewSpaces, "spaces"),
        (SeesOutside, "spaces"),
        (NeverEnds, "end"),
        (FailsAfterTheEnd, "end"),
        (ForgetsAReward, "api"),
        (lambda: with_text(ReturnsNoInfos(), rules="Guess.", answers=("a", "b", "c")), "api"),
        (Sound(), "make"),
        (InfoOfSets, "infos"),
        (NothingIsLegal, "masks"),
        (OddName, "names"),
        (HalfATeam, "names"),
        (ReadsWords, "text"),
        (Raises, "text"),
        (ReadsTheWrongWay, "text"),
        (HidesItsAnswers, "text"),
        (Forgetful, "text"),
        (DefaultsToNothing, "text"),
        (HasNoView, "text"),
    ],
)
def test_violations_of_the_contract_raise(broken, point):
    with pytest.raises(ConformanceError) as caught:
        check_environment(broken, max_turns=50)
    assert str(caught.value).startswith(point + ":")


def test_check_without_text_view():
    check_environment(HasNoView, text=False)
