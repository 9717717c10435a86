"""Hearers that would have acted otherwise without the words are told from those that would not."""

from functools import partial

import pytest

from srl_agents.evaluation.interactions import heeded
from srl_agents.evaluation.interactions.silence import without
from srl_agents.llm.text_policy import TextPolicy
from srl_agents.policy import AgentObservation
from srl_envs import make
from srl_envs.games.cheap_talk import spoken
from tests.fakes import ScriptedBackend
from tests.srl_agents.evaluation.interactions.known_players import SEEDS, Does, deaf

GAME = partial(make, "social_trading_v0", num_agents=3, max_cycles=6, messages=True, obs_mode="llm")
AGENTS = ("agent_0", "agent_1", "agent_2")


def speaker(seen, rng):
    return 0, ("no", "yes")[int(rng.integers(2))]


def follower(seen, rng):
    return int("yes" in dict(spoken(seen.observation)).get("agent_0", "")), None


@pytest.mark.parametrize("seed", SEEDS)
def test_the_follower_heeds_and_the_one_who_draws_at_random_does_not(seed):
    players = dict(zip(AGENTS, map(Does, (speaker, follower, deaf)), strict=True))
    names = dict(zip(AGENTS, ("speaker", "follower", "deaf"), strict=True))
    graph = heeded(GAME, players, range(seed, seed + 12), names=names)
    edges = {(edge.source, edge.target): edge for edge in graph.edges}
    assert set(edges) == {("speaker", "follower"), ("speaker", "deaf")}
    # Half of the words were "yes", without which it does 0; five turns of a game follow words.
    assert edges["speaker", "follower"].sure
    assert edges["speaker", "follower"].value == pytest.approx(0.5, abs=0.15)
    nothing = edges["speaker", "deaf"]
    assert (nothing.value, nothing.interval, nothing.games) == (0.0, (0.0, 0.0), 12)


def test_games_go_as_they_would_and_one_policy_may_have_several_places():
    copies = Does(lambda seen, rng: (int(len(spoken(seen.observation)) == 2), "words"))
    graph = heeded(GAME, dict.fromkeys(AGENTS, copies), [1, 2], names=dict.fromkeys(AGENTS, "one"))
    [edge] = graph.edges
    assert (edge.source, edge.target, edge.value, edge.games) == ("one", "one", 1.0, 2)


def test_who_follows_the_state_and_not_the_words_heeds_nobody():
    """Where a correlation of words and actions would find something."""
    clock = Does(lambda seen, rng: (int(seen.observation["observation"][0] > 0.4), "words"))
    graph = heeded(GAME, dict.fromkeys(AGENTS, clock), range(4))
    assert {edge.value for edge in graph.edges} == {0.0}


def test_words_leave_the_observation_and_its_text_and_other_words_stay():
    env = GAME()
    env.reset(seed=0)
    seen = {"observation": env.reset(seed=0)[0]["agent_0"]["observation"], "action_mask": None,
            "messages": 'agent_1 says: "one"\nagent_2 says: "two"'}  # fmt: skip
    seen["text"] = env.text_view.describe("agent_0", seen)
    told = AgentObservation("agent_0", seen, None, (("agent_1", "lead"), ("agent_2", "on")))
    silent = without(told, "agent_1", env.text_view)
    assert silent.observation["messages"] == 'agent_2 says: "two"'
    assert "one" in seen["text"] and '"one"' not in silent.observation["text"]
    assert '"two"' in silent.observation["text"]
    assert silent.messages == (("agent_2", "on"),)


def test_language_models_are_asked_again_too():
    """The model makes an offer where it newly read 'stop', else it passes."""

    def answer(request):
        newest = backend.chat.text(request.context).rsplit("user", 1)[-1]
        return "offer 1 coin for 1 apple to agent_1" if "stop" in newest else "pass"

    backend = ScriptedBackend(answer)
    model = TextPolicy(backend, GAME().text_view, name="model")
    quiet = Does(lambda seen, rng: (0, None))
    shouts = Does(lambda seen, rng: (0, "stop"))
    graph = heeded(GAME, dict(zip(AGENTS, (model, shouts, quiet), strict=True)), [0, 1],
                   names=dict(zip(AGENTS, ("model", "shouts", "quiet"), strict=True)))  # fmt: skip
    assert {(e.source, e.target): e.value for e in graph.edges} == {
        ("shouts", "model"): 0.6, ("shouts", "quiet"): 0.0,
    }  # fmt: skip  # three of five turns are for offers; in the others it can only pass
