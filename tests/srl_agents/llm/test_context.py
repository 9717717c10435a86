"""Contexts of language models: windows of a conversation, and functions of the user."""

import pytest

from srl_agents.errors import PolicyError
from srl_agents.llm.backends.chat_backend import ChatAnswer
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.chat_format import ChatTurn
from srl_agents.llm.chat_policy import ChatPolicy
from srl_agents.llm.context import context_function, context_tokens, window
from srl_agents.llm.text_policy import TextPolicy
from srl_agents.rollout import play
from srl_envs import make
from srl_envs.errors import EnvConfigError, UntrustedError


class Parrot:
    """Chat model that always gives one answer."""

    name, takes_seed, last = "parrot", False, ()

    def check(self, sampling):
        pass

    async def answer(self, request):
        self.last = request.messages
        return ChatAnswer("compete", "stop", True, "parrot")


CONVERSATION = [
    {"role": "system", "content": "rules"},
    {"role": "user", "content": "first"},
    {"role": "assistant", "content": "one"},
    {"role": "user", "content": "second"},
    {"role": "assistant", "content": "two"},
    {"role": "user", "content": "third"},
]


@pytest.fixture(scope="module")
def backend(tiny_folder):
    return HuggingFaceBackend.load(tiny_folder)


def game():
    return make("coop_compete_v0", num_agents=2, max_cycles=6)


def prompts(backend, context):
    """Play an episode; return the prompts of agent_0 as text."""
    env = game()
    policy = TextPolicy(backend, env.text_view, constrained=True, context=context)
    episode = play(env, dict.fromkeys(env.possible_agents, policy), seed=0)
    assert episode.failure is None
    tokens = [step.decision.tokens for step in episode.steps_of("agent_0")]
    return [backend.tokenizer.decode(one.prompt_ids) for one in tokens], tokens


@pytest.mark.parametrize(
    ("steps", "kept"), [(1, ["third"]), (2, ["second", "two", "third"]), (9, None)]
)
def test_window(steps, kept):
    words = [message["content"] for message in window(steps)(CONVERSATION)]
    assert words == ["rules", *(kept or ["first", "one", "second", "two", "third"])]


def test_a_whole_window_has_the_tokens_of_the_whole_conversation(backend):
    full, tokens = prompts(backend, None)
    windowed, whole = prompts(backend, window(6))
    so_far = ()
    for continued, complete in zip(tokens, whole, strict=True):
        so_far += continued.prompt_ids
        assert complete.whole_context and not continued.whole_context
        assert complete.prompt_ids == so_far
        assert complete.completion_ids == continued.completion_ids  # the same random draws
        so_far += continued.completion_ids
    assert len(full) == len(windowed) == 6


def test_prompts_of_a_window_do_not_grow(backend):
    _, tokens = prompts(backend, window(2))
    assert len({len(one.prompt_ids) for one in tokens[1:]}) <= 2
    _, [*_, last] = prompts(backend, context_function("last", 8))
    assert backend.tokenizer.decode(last.prompt_ids).count("<|im_start|>user") == 1


def test_a_function_of_the_user_may_write_messages(backend):
    def summary(messages):
        return [{"role": "user", "content": f"Message {len(messages)}. {messages[-1]['content']}"}]

    texts, _ = prompts(backend, summary)
    assert len(texts) == 6 and texts[0] != texts[-1]


def test_sampled_tokens_of_unchanged_answers_are_kept(backend):
    messages = [*CONVERSATION[:2], {"role": "assistant", "content": "compete"}, CONVERSATION[3]]
    tokens = context_tokens(backend.chat, list, messages, [(7, 8, 9)])
    assert tokens[tokens.index(7) :][:3] == (7, 8, 9)
    again = context_tokens(
        backend.chat, lambda messages: [dict(one) for one in messages], messages, [(7, 8, 9)]
    )
    assert backend.chat.answer("compete")[0] in again


@pytest.mark.parametrize(
    "wrong",
    [
        *([], CONVERSATION[:1], CONVERSATION[:3], CONVERSATION[2:], [*CONVERSATION[:2]] * 2),
        *(None, 3, "text", [3], ["text"], [{"content": "text"}], [{"role": "user"}]),
        *([{"role": "user", "content": 3}], [{"role": None, "content": "text"}]),
        [{"role": "system", "content": None}, CONVERSATION[1]],
    ],
)
def test_messages_must_alternate_and_end_with_the_user(backend, wrong):
    with pytest.raises(PolicyError, match="context function"):
        context_tokens(backend.chat, lambda messages: wrong, CONVERSATION[:2], [])
    policy = ChatPolicy(Parrot(), game().text_view, context=lambda messages: wrong)
    with pytest.raises(PolicyError, match="context function"):
        play(game(), dict.fromkeys(game().possible_agents, policy), seed=0)


def test_messages_that_a_function_changes_are_copies():
    def shout(messages):
        messages[-1]["content"] = "changed"
        return messages

    model = Parrot()
    policy = ChatPolicy(model, game().text_view, context=shout)
    play(game(), dict.fromkeys(game().possible_agents, policy), seed=0)
    assert [one["content"] for one in model.last if one["role"] == "user"].count("changed") == 1


def test_names_of_context_functions():
    assert context_function("full", 8) is None
    assert len(context_function("window", 2)(CONVERSATION)) == 4
    assert context_function("copy:copy", 8)(CONVERSATION) == CONVERSATION
    with pytest.raises(EnvConfigError, match="no_such_module"):
        context_function("no_such_module:function", 8)
    with pytest.raises(EnvConfigError, match="steps"):
        window(0)
    with pytest.raises(UntrustedError, match="copy:copy"):
        context_function("copy:copy", 8, trusted=False)


def test_lone_surrogates_are_escaped(backend):
    [ids] = backend.chat.prompts([ChatTurn("a \ud800", rules="")])
    assert "a \\ud800" in backend.tokenizer.decode(ids)
