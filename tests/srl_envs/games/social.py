"""Helpers for tests of trading and negotiation."""

from srl_envs.games import negotiation, trading
from srl_envs.text import ParseFailure

SIZES = {
    "social_trading_v0": trading.field_sizes,
    "social_negotiation_v0": negotiation.field_sizes,
}


def say(env, *answers):
    """One round in words that must be read."""
    actions = {}
    for agent, answer in zip(env.agents, answers, strict=True):
        actions[agent] = env.text_view.parse(agent, answer)
        assert not isinstance(actions[agent], ParseFailure), answer
    return env.step(actions)


def fields(env, vector):
    """Split an observation vector into lists by field."""
    seen, start = {}, 0
    for name, size in SIZES[env.metadata["name"]](env.rules).items():
        seen[name] = vector[start : start + size].tolist()
        start += size
    assert start == len(vector)
    return seen
