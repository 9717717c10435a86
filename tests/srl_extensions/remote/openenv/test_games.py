"""Environments of OpenEnv servers as ours: others' games for one agent, ours for several."""

import pytest
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

from srl_agents.episode import Decision
from srl_agents.policy import PerAgentPolicy
from srl_agents.rollout import play
from srl_envs import check_environment, make
from srl_envs.errors import EnvError
from srl_envs.text import TextEnv
from srl_envs.wrappers import SingleAgentEnv
from srl_extensions.remote.openenv_client import FocalAgent, OpenEnvGame, PartnerGame, listed
from srl_extensions.remote.openenv_server import in_background


class Step(Action):
    by: str


class Place(Observation):
    at: int
    heard: str = ""


class Line(Environment):
    """Third-party environment: a walk from 0 to 3."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed=None, episode_id=None, **kwargs):
        self.at = 0 if seed is None else seed % 2
        return Place(at=self.at)

    def step(self, action, timeout_s=None, **kwargs):
        if action.by == "fall":
            raise RuntimeError("\x1b[31mno")
        by = int(action.by == "go")
        self.at += by
        return Place(at=self.at, reward=by, done=self.at >= 3)

    @property
    def state(self):
        return State()


@pytest.fixture(scope="module")
def line():
    with in_background(create_app(Line, Step, Place, max_concurrent_envs=64)) as address:
        yield address


class Falls(PerAgentPolicy):
    def decide(self, seen, state):
        return Decision("fall")


WALK = {"rules": "Walk to 3.", "field": "by"}


def test_third_party_environment_conforms_to_the_api(line):
    check_environment(lambda: OpenEnvGame(line, max_cycles=8, **WALK))


def test_third_party_environment_is_played_in_text(line):
    game = TextEnv(OpenEnvGame(line, **WALK))
    told, _ = game.reset(seed=1)
    assert told["agent_0"] == "Walk to 3.\n\nat: 1"
    told, rewards, *_ = game.step({"agent_0": "go"})
    assert (told["agent_0"], rewards["agent_0"]) == ("at: 2", 1.0)
    *_, terminations, truncations, _ = game.step({"agent_0": "go"})
    assert terminations["agent_0"] and not truncations["agent_0"] and game.agents == []
    game.close()


def test_failure_ends_the_session(line):
    game = OpenEnvGame(line, rules="Say it.", field="to")
    game.reset()
    with pytest.raises(EnvError, match="Invalid message"):
        game.step({"agent_0": "go"})
    assert game.agents == []
    with pytest.raises(EnvError, match="call reset"):
        game.step({"agent_0": "go"})
    game.close()


def test_refusal_is_a_printable_error(line):
    game = OpenEnvGame(line, **WALK)
    game.reset()
    with pytest.raises(EnvError, match=r"\\x1b\[31mno") as caught:
        game.step({"agent_0": "fall"})
    assert str(caught.value).isprintable()
    episode = play(game, {"agent_0": Falls()}, seed=0)
    assert episode.failure.startswith("EnvError: http://127.0.0.1")


def test_observations_are_listed_field_by_field():
    seen = {"at": 3, "empty": "", "way": ["left", "right"], "said": "\x1b]0;x", "none": None}
    assert listed(seen) == 'at: 3\nway: ["left", "right"]\nsaid: \\x1b]0;x'
    assert listed({}) == "There is nothing to see."


def test_own_environment_conforms_to_the_api(url):
    check_environment(lambda: PartnerGame(url, "pair"))


def test_unknown_environment_is_refused(url):
    with pytest.raises(EnvError, match="not served here"):
        PartnerGame(url, "maze_v0")


def test_focal_agent_plays_with_partners(url):
    agent = FocalAgent(url, "pair")
    assert agent.reset(seed=2, prompt=[{"role": "user"}]).endswith(
        "Cooperation level 0.60, difficulty 0.30."
    )
    assert agent.get_reward() == 0.0
    for answer in ("cooperate", "compete", 7):
        told = agent.play(answer)
    assert "Your last answer was not read" in told  # a model's bad call is data
    assert agent.play("cooperate").endswith("\nThe game is over.")
    assert agent.play("cooperate") == "The game is over."
    alone = SingleAgentEnv(pair_with_tit_for_tat())
    alone.reset(seed=2)
    # What is not read plays the default action, at its price.
    paid = [alone.step(action)[1] for action in ("cooperate", "compete", "7", "cooperate")]
    assert agent.get_reward() == sum(paid)


def test_unencodable_characters_of_an_answer_are_replaced(url):
    agent = FocalAgent(url, "pair")
    agent.reset(seed=0)
    assert "not read" in agent.play("a\ud800b")


def pair_with_tit_for_tat():
    from srl_agents.partners import WithPartners
    from srl_agents.scripted.registry import classic_policy

    env = make("coop_compete_v0", variant="pair", num_agents=2, max_cycles=4)
    return TextEnv(WithPartners(env, {"agent_1": classic_policy("tit_for_tat", env)}))


def test_focal_agent_is_one(url):
    with pytest.raises(EnvError, match="agent_0, agent_1, agent_2 are left to one model"):
        FocalAgent(url)


def test_failed_server_episode_gives_no_reward(line):
    with pytest.raises(EnvError, match="the state is invalid"):
        FocalAgent(line)
