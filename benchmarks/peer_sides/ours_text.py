"""Text games of this library, from answer to answer; see `benchmarks.peers`."""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from examples.custom_environment import RockPaperScissors
from srl_envs import make
from srl_envs.text import TO_MOVE, TextEnv

MAKERS: Mapping[str, Callable[[], Any]] = {
    "rock, paper, scissors": partial(RockPaperScissors, max_cycles=9),
    "Kuhn poker": partial(make, "openspiel:kuhn_poker"),
    "iterated prisoner's dilemma": partial(make, "coop_compete_v0", num_agents=2, max_cycles=10),
    "negotiation": partial(make, "social_negotiation_v0", num_agents=2),
}
SECONDS = 0.5


def rate(make_env: Callable[[], Any]) -> float:
    """Return the steps per CPU-second of agents that are to move, with answers drawn before."""
    env = TextEnv(make_env())
    _, infos = env.reset(seed=0)
    moving = sum(info.get(TO_MOVE, True) for info in infos.values())
    rng = np.random.default_rng(0)
    answers = {
        agent: rng.choice(env.unwrapped.text_view.answers(agent), size=64).tolist()
        for agent in env.agents
    }
    drawn = [{agent: answers[agent][n] for agent in answers} for n in range(64)]
    rounds, cycle, began = 0, itertools.cycle(drawn), time.process_time()
    while rounds % 100 or time.process_time() - began < SECONDS:
        env.step(next(cycle))
        if not env.agents:
            env.reset()
        rounds += 1
    return rounds * moving / (time.process_time() - began)


if __name__ == "__main__":
    found = rate(MAKERS[json.loads(sys.argv[1])["game"]])
    print(json.dumps({"rate": found}))
