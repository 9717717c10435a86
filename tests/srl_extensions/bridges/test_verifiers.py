"""Our games as a verifiers environment: its own runner, a server on this machine as the model."""

import asyncio
from itertools import cycle
from pathlib import Path

import pytest

from srl_agents.errors import PolicyError
from srl_agents.partners import WithPartners
from srl_agents.scripted.registry import classic_policy
from srl_envs import make
from srl_envs.text import TextEnv
from tests.servers.chat_server import chat_server

pytestmark = [pytest.mark.verifiers, pytest.mark.filterwarnings("ignore")]
NAME = Path(__file__).parents[3] / "compat" / "srl_games"
SAID = ("cooperate", "I cannot decide", "compete")
OPTIONS = {"max_cycles": 3}


@pytest.fixture(autouse=True)
def found_by_name(monkeypatch):
    monkeypatch.syspath_prepend(str(NAME))


@pytest.fixture
def server():
    said = cycle(SAID)
    with chat_server() as made:
        made.answer = lambda body: next(said)
        yield made


def environment(**taskset):
    import verifiers.v1 as vf
    from verifiers.v1.utils.loaders import resolve_env_config

    named = {"id": "srl-games", "options": OPTIONS, "games": 2, "first_seed": 5} | taskset
    return vf.load_environment(resolve_env_config({"taskset": named}))


def episodes(env, server):
    import verifiers.v1 as vf

    async def played():
        client = vf.EvalClientConfig(base_url=f"{server.url}/v1", api_key_var="NO_SUCH_KEY")
        context = vf.ModelContext(client=client, model="m", sampling=vf.SamplingConfig())
        async with env.serving():
            slots = [slot for task in env.taskset for slot in env.slots(task)]
            return [await env.run_slot(slot, context) for slot in slots]

    return asyncio.run(played())


def words(messages):
    return [(message["role"], message["content"]) for message in messages]


GAMES = {
    "pair": ("coop_compete_pair_v0", "agent_0", {"agent_1": "tit_for_tat"}, OPTIONS),
    "three": (
        "coop_compete_v0", "agent_1", {"agent_0": "tit_for_tat", "agent_2": "uniform"},
        {"num_agents": 3, "max_cycles": 4},
    ),
}  # fmt: skip
"""Environment, the model's agent, its partners and options."""


@pytest.mark.parametrize("name", GAMES)
def test_conversation_equals_that_of_our_text_environment(server, name):
    named = dict(zip(("environment", "agent", "partners", "options"), GAMES[name], strict=True))
    games = episodes(environment(**named), server)
    assert [episode.ok for episode in games] == [True, True], [e.errors for e in games]
    said, bodies = cycle(SAID), iter(server.bodies)
    for number, episode in enumerate(games):
        [trace] = episode.traces
        heard, whole, reward, failures = in_text(*GAMES[name], seed=5 + number, said=said)
        assert [words(next(bodies)["messages"]) for _ in heard] == heard
        [branch] = trace.branches
        assert [(one.role, one.content) for one in branch.messages] == whole
        assert trace.rewards["episode_return"].score == pytest.approx(reward)
        assert trace.metrics["unreadable_answers"] == pytest.approx(failures / len(heard))
    assert next(bodies, None) is None


def in_text(name, agent, partners, options, seed, said):
    """(What a model is sent at each turn, the whole conversation, the reward, how many answers
    could not be read), by TextEnv alone."""
    game = make(name, **options)
    others = {other: classic_policy(policy, game) for other, policy in partners.items()}
    env, view = TextEnv(WithPartners(game, others)), game.unwrapped.text_view
    texts, _ = env.reset(seed=seed)
    rules = view.rules(agent)
    told = [("system", rules.strip()), ("user", texts[agent].removeprefix(rules).strip())]
    heard, reward, failures = [], 0.0, 0
    while env.agents:
        heard.append(list(told))
        answer = next(said)
        texts, rewards, _, _, infos = env.step({agent: answer})
        failed = infos[agent]["parse_failure"] is not None
        reward, failures = reward + rewards[agent], failures + failed
        told.append(("assistant", answer))
        if env.agents:
            told.append(("user", texts[agent].strip()))
    return heard, told, reward, failures


def test_held_out_partners_are_refused_for_training(server):
    with pytest.raises(PolicyError, match="reserved for evaluation"):
        list(environment(partners={"agent_1": "pavlov"}).taskset)
    assert len(list(environment(partners={"agent_1": "pavlov"}, evaluation=True).taskset)) == 2


def test_agent_without_policy_fails_the_episode(server):
    [episode, _] = episodes(environment(partners={}), server)
    assert not episode.ok and "policy for agent_1" in episode.errors[0].message
