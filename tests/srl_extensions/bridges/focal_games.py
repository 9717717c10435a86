"""Helpers for tests of bridges: an episode with given answers, and our trainer's sample of it."""

from itertools import cycle

from srl_agents.llm.chat_format import ChatFormat
from srl_agents.llm.sampling import Sampling
from srl_agents.llm.text_policy import TextPolicy
from srl_agents.llm.tiny import build_tokenizer, random_dialogues
from srl_agents.rollout import play
from srl_agents.scripted.registry import classic_policy
from srl_envs import make
from srl_extensions.bridges.focal_game import FocalGame
from srl_train.samples import sample_of
from srl_train.trajectory import shaped_game
from tests.fakes import ScriptedBackend

OPTIONS = {"num_agents": 3, "max_cycles": 4}
GAME = FocalGame(
    "coop_compete_v0", "agent_1", {"agent_0": "tit_for_tat"}, OPTIONS, max_new_tokens=16
)
SAID = ("cooperate", "who knows", "compete", "cooperate")
"""Answers of the model in order; the second cannot be parsed."""
SEED = 7


def tokenizer():
    """A real one, of the game's own words."""
    dialogues = random_dialogues(
        lambda: make(GAME.environment, **OPTIONS), games=4, turns=3, seed=0
    )
    return build_tokenizer(dialogues)


def answers_of(chat):
    """Yield tokens and log-probabilities of the answers, repeatedly."""
    for text in cycle(SAID):
        ids = [*chat.answer(text), chat.end_of_turn]
        yield ids, [-0.5] * len(ids)


def our_sample(chat):
    """Return the training sample of our trainer for the episode."""
    env = make(GAME.environment, **OPTIONS)
    view = env.unwrapped.text_view
    policies = {"agent_0": classic_policy("tit_for_tat", env)}
    for agent in ("agent_1", "agent_2"):
        backend = ScriptedBackend(SAID)
        backend.chat = chat
        policies[agent] = TextPolicy(backend, view, sampling=Sampling(max_new_tokens=16))
    episode = play(env, policies, seed=SEED)
    game = shaped_game(episode, ("agent_1",), lambda raw: raw, view.parse_penalty)
    return sample_of(game["agent_1"], discount=1.0, round_number=0)


def chat_of(made):
    """Return the chat format of the tokenizer."""
    return ChatFormat(made)
