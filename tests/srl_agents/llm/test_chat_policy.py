"""A model behind an API in a seat: told, read and remembered as any other that writes."""

import pytest

from srl_agents.episode import from_json, to_json
from srl_agents.errors import PolicyError
from srl_agents.event_loop import run
from srl_agents.llm.backends.chat_backend import ChatAnswer, Usage
from srl_agents.llm.backends.registry import api_model
from srl_agents.llm.chat_policy import ChatPolicy
from srl_agents.llm.sampling import Sampling
from srl_agents.llm.text_policy import TextPolicy
from srl_agents.policy import AgentObservation
from srl_agents.rollout import play_many
from srl_envs import registry
from tests.fakes import ScriptedBackend, Vote
from tests.srl_envs.third_party_games import nim


class Scripted:
    """ChatModel that answers with the given texts; those that end in '...' are cut."""

    name, takes_seed = "scripted", True

    def __init__(self, answers):
        self.usage, self.requests, self._answers = Usage(), [], iter(answers)

    def check(self, sampling):
        if sampling.top_k:
            raise PolicyError("no top_k here")

    async def answer(self, request):
        self.requests.append(request)
        text = next(self._answers)
        ending = ("length", False) if text.endswith("...") else ("stop", True)
        return ChatAnswer(text, *ending, "s")


def one_turn(policy, state, seen="rain", agent="a", **more):
    [decision], [state] = run(policy.act([AgentObservation(agent, seen, **more)], [state]))
    return decision, state


def make_env():
    return registry.make("coop_compete_v0", num_agents=2, variant="pair", max_cycles=3)


def test_prompts_equal_those_of_text_policy():
    answers = ["cooperate", "what?", "compete"]
    view = make_env().unwrapped.text_view
    backend, model = ScriptedBackend(answers * 2), Scripted(answers * 2)
    played = []
    for policy in (
        TextPolicy(backend, view),
        ChatPolicy(model, view),
    ):
        [episode] = play_many(make_env, dict.fromkeys(("agent_0", "agent_1"), policy), [1])
        played.append(
            [(s.decision.action, s.decision.parse_failure) for t in episode.turns for s in t]
        )
    assert played[0] == played[1] and any(failure for _, failure in played[0])
    for index, request in enumerate(model.requests):
        rendered = "".join(
            f"<|im_start|>{one['role']}\n{one['content']}<|im_end|>\n" for one in request.messages
        )
        assert backend.heard(index) == rendered + "<|im_start|>assistant\n"


def test_the_parse_failure_of_a_cut_answer_names_the_reason():
    policy = ChatPolicy(Scripted(["I think that...", "", "go"]), Vote())
    cut, state = one_turn(policy, policy.start(0))
    empty, state = one_turn(policy, state)
    read, _ = one_turn(policy, state)
    assert cut.parse_failure.endswith("(it ended by 'length')") and cut.text == "I think that..."
    assert empty.parse_failure and "ended by" not in empty.parse_failure
    assert read.parse_failure is None


def test_no_seed_for_apis_without_seeds():
    model = Scripted(["go"])
    model.takes_seed = False
    policy = ChatPolicy(model, Vote())
    one_turn(policy, policy.start(0))
    assert model.requests[0].seed is None


def test_sampling_per_agent_is_checked_at_construction():
    model = Scripted(["go", "go"])
    own = Sampling(temperature=0.0)
    policy = ChatPolicy(model, Vote(), sampling=Sampling(top_p=0.5), per_agent={"b": own})
    run(
        policy.act(
            [AgentObservation("a", "x"), AgentObservation("b", "x")],
            [policy.start(0), policy.start(1)],
        )
    )
    assert [r.sampling.top_p for r in model.requests] == [0.5, 1.0]
    assert model.requests[1].sampling is own
    for settings in ({"sampling": Sampling(top_k=2)}, {"per_agent": {"b": Sampling(top_k=2)}}):
        with pytest.raises(PolicyError, match="no top_k"):
            ChatPolicy(model, Vote(), **settings)


@pytest.mark.parametrize("name", ["openai:m", "anthropic:m"])
def test_plays_games_over_a_real_connection(server, name):
    server.answer = lambda body: "hm" if len(body["messages"]) < 3 else "cooperate"
    policy = ChatPolicy(api_model(name), make_env().unwrapped.text_view)
    seats = dict.fromkeys(("agent_0", "agent_1"), policy)
    episodes = play_many(make_env, seats, range(3))
    for episode in episodes:
        assert episode.failure is None and episode.seats == dict.fromkeys(seats, name)
        assert [s.decision.text for s in episode.steps_of("agent_1")] == [
            "hm", "cooperate", "cooperate",
        ]  # fmt: skip
        assert episode.steps_of("agent_1")[0].decision.parse_failure
        assert from_json(to_json(episode)).turns[0][0].decision.tokens is None
    assert len(server.bodies) == 18


def test_a_failing_api_fails_the_episode(server):
    server.trouble = [400] * 9
    policy = ChatPolicy(api_model("openai:m"), make_env().unwrapped.text_view)
    [episode] = play_many(make_env, dict.fromkeys(("agent_0", "agent_1"), policy), [0])
    assert episode.failure.startswith("RejectedError: openai:m: BadRequestError: ")


def test_the_default_action_is_recorded_and_reported():
    """Passing is the default but illegal in Nim: the first legal action is played."""
    model = Scripted(["banana", "pass", "two", "one"] * 9)
    policy = ChatPolicy(model, nim().text_view)
    [episode] = play_many(nim, dict.fromkeys(("player_1", "player_2"), policy), [0])
    [moved] = [step for step in episode.turns[0] if step.decision.asked]
    assert moved.decision.action == 1 and moved.decision.parse_failure
    assert not moved.info["illegal"] and episode.turns[1][0].observation["observation"] == 6
    told = [request.messages[-1]["content"] for request in model.requests[1:3]]
    assert "So one was played." in told[1] and "played" not in told[0]
