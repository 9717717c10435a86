"""Text games of TextArena, from answer to answer; runs without this library."""

from __future__ import annotations

import itertools
import json
import random
import sys
import time
from typing import Any

import textarena

ANSWERS = {
    "IteratedRockPaperScissors-v0": ("[rock]", "[paper]", "[scissors]"),
    "KuhnPoker-v0": ("[check]", "[bet]", "[fold]", "[call]"),
    "IteratedPrisonersDilemma-v0": ("[Cooperate]", "[Defect]"),
    "SimpleNegotiation-v0": ("I have [Offer: 1 Wheat -> 1 Wood]", "[Deny]", "What do you want?"),
}
SECONDS = 0.5


def new_game(name: str) -> Any:
    """Return a new game; one that is reset would keep the text of all former episodes."""
    game = textarena.make(name)
    game.reset(num_players=2)
    return game


def rate(name: str) -> float:
    """Return the steps per CPU-second, with legal answers drawn before."""
    rng, poker = random.Random(0), "Kuhn" in name
    cycle = itertools.cycle([rng.choice(ANSWERS[name]) for _ in range(64)])
    game, steps, began = new_game(name), 0, time.process_time()
    while steps % 100 or time.process_time() - began < SECONDS:
        _, seen = game.get_observation()
        answer = next(cycle)
        legal = seen.rpartition("available actions are:")[2] if poker else answer
        while answer not in legal:
            answer = next(cycle)
        done, _ = game.step(action=answer)
        if done:
            game.close()
            game = new_game(name)
        steps += 1
    return steps / (time.process_time() - began)


if __name__ == "__main__":
    print(json.dumps({"rate": rate(json.loads(sys.argv[1])["game"])}))
