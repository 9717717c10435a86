"""Samples from another library's engine equal those of our trainer, token by token."""

import dataclasses
from itertools import cycle

import pytest

from srl_agents.errors import BackendError, PolicyError, RolloutError
from srl_agents.event_loop import run
from srl_agents.llm.backends.chat_backend import ChatAnswer
from srl_agents.llm.chat_format import ChatFormat
from srl_envs.errors import UntrustedError
from srl_extensions.bridges.focal_game import EngineAnswer, EngineBackend, FocalGame, play_focal
from tests.fakes import ByteTokenizer
from tests.srl_extensions.bridges.focal_games import GAME, SAID, SEED, our_sample

CHAT = ChatFormat(ByteTokenizer())
ENDLESS = 100_000


class Engine:
    """Engine that returns `said` in order and records requests."""

    def __init__(self, said=SAID, logprob=-0.5, room=ENDLESS):
        self.said, self.logprob, self.room = said, logprob, room
        self.asked = []

    def __call__(self, agent):
        said = cycle(self.said)

        async def generate(context, longest):
            self.asked.append((agent, tuple(context), longest))
            ids = (*CHAT.answer(next(said)), CHAT.end_of_turn)
            return EngineAnswer(ids, (self.logprob,) * len(ids), (3,) * len(ids))

        return EngineBackend("engine", CHAT, generate, lambda prompt: self.room)


def test_sample_equals_that_of_our_trainer():
    sample = run(play_focal(GAME, SEED, Engine()))
    assert dataclasses.replace(sample.tokens, version=0) == our_sample(CHAT)
    assert sample.parse_failures == 0.25
    assert [answer.versions[0] for answer in sample.answers] == [3, 3, 3, 3]


def test_too_long_conversation_ends_the_episode_with_its_reward():
    whole = run(play_focal(GAME, 7, Engine())).tokens
    room = whole.turns[2][0] + 15  # one short of a third answer
    cut = run(play_focal(GAME, 7, Engine(room=room))).tokens
    assert cut.turns == whole.turns[:2]
    assert cut.completion_ids == whole.completion_ids[: whole.turns[1][1]]
    assert len(cut.completion_ids) <= room
    exact = run(play_focal(GAME, 7, Engine(room=room + 1))).tokens
    assert exact.turns == whole.turns[:3]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (EngineAnswer((), ()), "0 tokens and 0 log"),
        (EngineAnswer((65, 257), (-0.5,)), "2 tokens and 1 log-probabilities"),
    ],
)
def test_invalid_engine_answer_fails_the_episode(answer, words):
    async def generate(context, longest):
        return answer

    with pytest.raises(RolloutError, match=words):
        run(play_focal(GAME, 0, lambda agent: EngineBackend("e", CHAT, generate, lambda _: 999)))


def test_failing_partner_fails_the_episode(monkeypatch):
    class Dying:
        name = "openai:dying"
        takes_seed = False
        answers = 0

        def check(self, sampling):
            pass

        async def answer(self, request):
            self.answers += 1
            if self.answers < 3:  # the focal agent has answers to learn from by then
                return ChatAnswer("cooperate", "stop", True, "dying")
            raise BackendError("no such server")

    monkeypatch.setattr("srl_extensions.bridges.focal_game.api_model", lambda name: Dying())
    game = FocalGame("coop_compete_pair_v0", "agent_0", {"agent_1": "openai:dying"})
    with pytest.raises(RolloutError, match="no such server"):
        run(play_focal(game, 0, Engine(), trusted=True))


@pytest.mark.parametrize(
    ("game", "error", "words"),
    [
        (FocalGame("coop_compete_v0", "agent_9"), PolicyError, "no agent 'agent_9'"),
        (FocalGame("coop_compete_v0", "agent_0", {"bob": "uniform"}), PolicyError, "no agent"),
        (
            FocalGame("coop_compete_v0", "agent_0", {"agent_0": "uniform"}),
            PolicyError,
            "trained agent agent_0",
        ),
        (
            FocalGame("coop_compete_v0", "agent_0", {"agent_1": "tit_for_tatt"}),
            PolicyError,
            "did you mean 'tit_for_tat'",
        ),
        (FocalGame("os:system", "agent_0"), UntrustedError, "is code"),
        (
            FocalGame("coop_compete_v0", "agent_0", {"agent_1": "this:Half"}),
            UntrustedError,
            "is code that a record names",
        ),
        (
            FocalGame("coop_compete_v0", "agent_0", {"agent_1": "openai:gpt-5-mini"}),
            UntrustedError,
            "is an API model in an untrusted row",
        ),
        (
            FocalGame("math_v0", "agent_0", options={"path": "/etc/passwd"}),
            UntrustedError,
            "is a place on this machine",
        ),
    ],
)
def test_invalid_games_are_refused(game, error, words):
    with pytest.raises(error, match=words):
        run(play_focal(game, 0, Engine()))
