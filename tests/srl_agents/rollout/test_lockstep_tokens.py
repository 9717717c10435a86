"""Tokens of `play_many` equal those of the former lock-step player in lockstep_tokens.json."""

import json
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.sampling import Sampling
from srl_agents.llm.text_policy import TextPolicy
from srl_agents.rollout import play_many
from srl_agents.scripted.registry import classic_policy
from srl_envs import make
from tests.fakes import END, ByteTokenizer

RECORDED = json.loads(Path(__file__).with_name("lockstep_tokens.json").read_text("utf-8"))
GAMES = {
    "simultaneous": ("coop_compete_v0", {"num_agents": 4, "max_cycles": 4}, True),
    "leaders": ("coop_compete_v0", {"num_agents": 4, "max_cycles": 4}, True),
    "market": ("social_trading_v0", {"max_cycles": 3}, False),
    "negotiation": ("social_negotiation_v0", {"max_cycles": 4}, False),
    "debate": ("debate_v0", {}, False),
}
LEADERS = {"agent_1": ("agent_0", "agent_2")}
SAMPLINGS = (
    Sampling(max_new_tokens=6),
    Sampling(temperature=1.5, max_new_tokens=4),
    Sampling(temperature=0.8, top_p=0.9, max_new_tokens=5),
)


class Tokenizer(ByteTokenizer):
    def decode(self, token_ids, **_):
        return bytes(token for token in token_ids if token < 256).decode("latin-1")


def untrained(number):
    """Return an untrained model, whose answers have all lengths."""
    torch.manual_seed(number)
    config = LlamaConfig(
        vocab_size=END + 1, hidden_size=32, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, max_position_embeddings=8192, initializer_range=0.2,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    model.generation_config.eos_token_id = list(range(0, END, 8))
    return HuggingFaceBackend(model, Tokenizer(), name=f"untrained_{number}")


def played(label, **settings):
    """Return agents of two models, one with two agents, and a scripted policy if there is room."""
    name, options, constrained = GAMES[label]
    env = make(name, **options)
    view, agents = env.unwrapped.text_view, env.possible_agents
    writers = [
        TextPolicy(untrained(number), view, sampling=sampling, constrained=constrained and number)
        for number, sampling in enumerate(SAMPLINGS[: 2 + (len(agents) > 3)])
    ]
    seats = {agent: writers[place % 2] for place, agent in enumerate(agents)}
    if len(agents) > 3:
        seats[agents[2]], seats[agents[3]] = writers[2], classic_policy("uniform", env)
    return play_many(
        lambda: make(name, **options),
        seats,
        [5, 5, 6, 7],
        policy_seeds=[1, 2, 3, 4],
        speaks_first=LEADERS if label == "leaders" else {},
        **settings,
    )


def tokens_of(episodes):
    return [
        [
            [step.agent, *(step.decision.tokens.completion_ids if step.decision.tokens else ())]
            for turn in episode.turns
            for step in turn
        ]
        for episode in episodes
    ]


@pytest.mark.parametrize("label", GAMES)
def test_tokens_equal_lock_step_sampling(label):
    episodes = played(label)
    assert not any(episode.failure for episode in episodes)
    assert tokens_of(episodes) == RECORDED[label]


@pytest.mark.parametrize("in_flight", [1, 3])
def test_other_batches_give_the_same_tokens(in_flight):
    assert tokens_of(played("simultaneous", in_flight=in_flight)) == RECORDED["simultaneous"]
