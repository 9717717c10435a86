"""Hostile answers in thousands: pieces thrown together by a generator, at next to no cost."""

import json

import numpy as np

from srl_envs.text import TEXT_LENGTH
from tests.srl_envs.tasks.grading.hostile_answers import PIECES

JOINTS = ("", " ", "\n")


def hostile_text(rng, *words):
    """Up to seven pieces or `words`, in any order, and now and then some characters."""
    pieces = (*words, *PIECES)
    chosen = [pieces[place] for place in rng.integers(len(pieces), size=rng.integers(8))]
    if rng.random() < 0.1:
        chosen.append("".join(map(chr, rng.integers(1, 0x3000, size=20))))
    return JOINTS[rng.integers(3)].join(chosen)[:16_000]


def hear_hostile(env, answers, *words, seat="agent_0"):
    """Play a task alone with at least so many hostile answers; yields what it told after each."""
    rng = np.random.default_rng(0)
    said = episode = 0
    while said < answers:
        env.reset(seed=episode)
        episode += 1
        while env.agents:
            seen, rewards, _, _, infos = env.step({seat: hostile_text(rng, *words)})
            said += 1
            assert -0.2 <= rewards[seat] <= 1.0 and len(seen[seat]) <= TEXT_LENGTH
            json.dumps(infos)
            yield seen[seat], infos[seat]
