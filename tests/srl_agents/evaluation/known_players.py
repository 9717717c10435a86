"""Recorded games of players whose part in each other's rewards is known."""

from dataclasses import replace
from functools import partial

import numpy as np

from srl_agents.episode import Decision, from_json, to_json
from srl_agents.policy import PerAgentPolicy
from srl_agents.rollout import play_many
from srl_agents.scripted.registry import classic_policy
from srl_envs import make


def played(name, players, seed=0, games=6, rotate=False, **options):
    """Recorded games of these players: (name, policy or the name of one), in agent order."""
    told = options.pop("reset", None)
    env = make(name, **options)
    agents = env.possible_agents
    policies = [
        classic_policy(who, env) if isinstance(who, str) else who for _, who in players
    ]  # fmt: skip
    episodes = []
    for game in range(games):
        turned = np.roll(range(len(players)), game if rotate else 0)
        episodes += play_many(
            partial(make, name, **options),
            {agent: policies[place] for agent, place in zip(agents, turned, strict=True)},
            [seed + game],
            names={agent: players[place][0] for agent, place in zip(agents, turned, strict=True)},
            reset_options=None if told is None else [told],
        )
    return [from_json(to_json(episode)) for episode in episodes]


def edges(found, measure):
    return {(e.source, e.target): e for e in found.graph(measure).edges}


def unknown(games):
    """The same records, without how their environment was made."""
    return [replace(game, made_as=None) for game in games]


class Does(PerAgentPolicy):
    """Does and says what a function of the observation and a generator gives."""

    def __init__(self, choose):
        self.choose = choose

    def decide(self, seen, state):
        action, words = self.choose(seen, state)
        return Decision(action, None if words is None else f"{words}\n{action}")


def deaf(seen, rng):
    """Draws one of two actions, whatever it sees."""
    return int(rng.integers(2)), None
