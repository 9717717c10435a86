"""Our environments keep the contract, and environments that break it are found out."""

import random
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
from gymnasium import spaces

from srl_envs import registry
from srl_envs.env_checker import check_environment
from srl_envs.errors import ConformanceError
from srl_envs.games.base import OBSERVATION_MODES
from srl_envs.games.coop_compete import CoopCompete, CoopCompeteView
from srl_envs.games.staged import Staged
from srl_envs.text import ParseFailure

ROUNDS = 12


@pytest.mark.parametrize("mode", OBSERVATION_MODES)
@pytest.mark.parametrize("name", registry.names())
def test_keeps_the_contract(name, mode):
    check_environment(partial(registry.make, name, obs_mode=mode, max_cycles=ROUNDS))


@pytest.mark.parametrize("layout", [["AG"], ["A.G", "..."], None])
@pytest.mark.parametrize(("task", "seats"), [("race", 1), ("own", 2), ("meet", 2), ("race", 5)])
def test_mazes_keep_the_contract_solved_or_not(task, seats, layout):
    check_environment(
        partial(
            registry.make,
            "maze_v0",
            layout=layout,
            task=task,
            num_agents=seats,
            view_radius=2,
            mask_walls=True,
            obs_mode="dict",
        )
    )


def test_keeps_the_contract_over_an_episode_of_full_length():
    check_environment(partial(registry.make, "coop_compete_pair_v0"))


class Sound(CoopCompete):
    """What the broken ones below are made from."""

    def __init__(self):
        super().__init__(num_agents=2, max_cycles=6)


class SoundToo(Staged):
    """The same, of those whose steps the base puts together."""

    def __init__(self):
        super().__init__(num_agents=2, max_cycles=6)

    def reset(self, seed=None, options=None):
        return super().reset(seed, {"episode": 100})  # its episodes are alike at last


@pytest.mark.parametrize("sound", [Sound, SoundToo])
def test_the_broken_ones_are_made_from_sound_ones(sound):
    check_environment(sound)


class GlobalNoise(Sound):
    def noise(self, count):
        return np.random.normal(0, 0.05, count).clip(-0.1, 0.1).tolist()


class TouchesGlobalRandom(Sound):
    def noise(self, count):
        random.random()
        return super().noise(count)


class ForgetsTheSeed(Sound):
    def reset(self, seed=None, options=None):
        return super().reset(None, options)


class KeepsDrawnNoise(SoundToo):
    """Seeds the generator, but goes on using what was drawn before."""

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


class KeepsOneBlock(SoundToo):
    """Gives new views of the same memory, in which by chance nothing changes."""

    def _observations(self, vectors):
        self.block = getattr(self, "block", np.zeros((2, 9), np.float32))
        return dict(zip(vectors, self.block, strict=True))


class SharesOneVector(SoundToo):
    def _observations(self, vectors):
        return dict.fromkeys(vectors, vectors["agent_0"])


class ReusesItsInfos(Sound):
    def step(self, actions):
        *outcome, infos = super().step(actions)
        self.kept = getattr(self, "kept", infos)
        return *outcome, self.kept


class OneInfoForAll(Sound):
    def step(self, actions):
        *outcome, infos = super().step(actions)
        return *outcome, dict.fromkeys(infos, next(iter(infos.values())))


class NewSpaces(Sound):
    def action_space(self, agent):
        return spaces.Discrete(2)


class SeesOutside(SoundToo):
    def _observations(self, vectors):
        return {agent: vector + 2 for agent, vector in vectors.items()}


class SeesDoubles(SoundToo):
    def _observations(self, vectors):
        return {agent: vector.astype(np.float64) for agent, vector in vectors.items()}


class NeverEnds(Sound):
    def reset(self, seed=None, options=None):
        answer = super().reset(seed, options)
        self.rounds = 10**9
        return answer


class OutlastsMaxCycles(Sound):
    def reset(self, seed=None, options=None):
        answer = super().reset(seed, options)
        self.rounds = self.max_cycles + 1
        return answer


class FailsAfterTheEnd(Sound):
    def step(self, actions):
        if not actions:
            raise RuntimeError("it is over")
        return super().step(actions)


class KeepsTheDead(Sound):
    def step(self, actions):
        seats = list(self.agents)
        outcome = super().step(actions)
        self.agents = seats
        return outcome


class ForgetsAReward(Sound):
    def step(self, actions):
        observations, rewards, *outcome = super().step(actions)
        del rewards["agent_1"]
        return observations, rewards, *outcome


class PaysNan(Sound):
    def step(self, actions):
        observations, rewards, *outcome = super().step(actions)
        return observations, dict.fromkeys(rewards, float("nan")), *outcome


class EndsWithNumbers(Sound):
    def step(self, actions):
        observations, rewards, ends, *outcome = super().step(actions)
        return observations, rewards, {agent: int(end) for agent, end in ends.items()}, *outcome


class StepsInFour(Sound):
    def step(self, actions):
        observations, rewards, ends, _, infos = super().step(actions)
        return observations, rewards, ends, infos


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


class MaskOfBools(Sound):
    def step(self, actions):
        *outcome, infos = super().step(actions)
        infos["agent_0"]["action_mask"] = infos["agent_0"]["action_mask"].astype(bool)
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


class AnswersTooMany(Speaks):
    class view(View):
        def answers(self, agent):
            return ("compete", "cooperate", "pass")


class HidesItsAnswers(Speaks):
    class view(View):
        def rules(self, agent):
            return "Guess what you may say."


class Forgetful(Speaks):
    class view(View):
        def describe(self, agent, observation):
            observation[0] += 1
            return super().describe(agent, observation)


class SaysNothing(Speaks):
    class view(View):
        def describe(self, agent, observation):
            return " "


class DefaultsToNothing(Speaks):
    view = partial(CoopCompeteView, 2, "population", 6, default_action=7)


class PaysForNonsense(Speaks):
    view = partial(CoopCompeteView, 2, "population", 6, parse_penalty=-1.0)


class HasNoView(Speaks):
    @staticmethod
    def view():
        return None


@pytest.mark.parametrize(
    ("broken", "point"),
    [
        (GlobalNoise, "seeds"),
        (TouchesGlobalRandom, "global randomness"),
        (ForgetsTheSeed, "seeds"),
        (KeepsDrawnNoise, "seeds"),
        (ReusesItsBuffer, "fresh"),
        (KeepsOneBlock, "fresh"),
        (SharesOneVector, "fresh"),
        (ReusesItsInfos, "fresh"),
        (OneInfoForAll, "fresh"),
        (NewSpaces, "spaces"),
        (SeesOutside, "spaces"),
        (SeesDoubles, "spaces"),
        (NeverEnds, "end"),
        (OutlastsMaxCycles, "end"),
        (FailsAfterTheEnd, "end"),
        (KeepsTheDead, "end"),
        (ForgetsAReward, "api"),
        (PaysNan, "api"),
        (EndsWithNumbers, "api"),
        (StepsInFour, "api"),
        (InfoOfSets, "infos"),
        (NothingIsLegal, "masks"),
        (MaskOfBools, "masks"),
        (OddName, "names"),
        (HalfATeam, "names"),
        (ReadsWords, "text"),
        (Raises, "text"),
        (ReadsTheWrongWay, "text"),
        (AnswersTooMany, "text"),
        (HidesItsAnswers, "text"),
        (Forgetful, "text"),
        (SaysNothing, "text"),
        (DefaultsToNothing, "text"),
        (PaysForNonsense, "text"),
        (HasNoView, "text"),
    ],
)
def test_a_broken_environment_is_found_out(broken, point):
    with pytest.raises(ConformanceError) as caught:
        check_environment(broken, max_turns=50)
    assert str(caught.value).startswith(point + ":")


def test_text_can_be_left_out():
    check_environment(HasNoView, text=False)
