"""Exact probabilities of a language model's legal answers."""

import math

import pytest

from srl_agents.errors import PolicyError
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.text_policy import TextPolicy
from srl_agents.policy import AgentObservation
from srl_agents.rollout import play
from srl_envs import make


def game():
    return make("coop_compete_v0", num_agents=2, max_cycles=3)


@pytest.fixture(scope="module")
def backend(tiny_folder):
    return HuggingFaceBackend.load(tiny_folder)


def test_probabilities_are_those_of_the_sampled_answers(backend):
    env = game()
    policy = TextPolicy(backend, env.text_view, constrained=True)
    episode = play(env, dict.fromkeys(env.possible_agents, policy), seed=0)
    memory = policy.start(0)
    for step in episode.steps_of("agent_0"):
        seen = AgentObservation("agent_0", step.observation)
        chances = policy.probabilities(seen, memory)
        sampled = math.exp(sum(step.decision.tokens.logprobs))
        assert chances.sum() == pytest.approx(1.0)
        assert chances[step.decision.action] == pytest.approx(sampled, rel=1e-4)
        memory = policy.continued(seen, memory, step.decision.action)


def test_unconstrained_answers_have_no_exact_probabilities(backend):
    env = game()
    policy = TextPolicy(backend, env.text_view)
    observations, _ = env.reset(seed=0)
    with pytest.raises(PolicyError, match="constrained"):
        policy.probabilities(AgentObservation("agent_0", observations["agent_0"]), policy.start(0))


@pytest.mark.parametrize("answers", [["yes", ""], ["yes", "yes"]])
def test_answers_must_have_distinct_words(backend, answers):
    with pytest.raises(PolicyError, match="answers"):
        backend.chat.answers(answers)
