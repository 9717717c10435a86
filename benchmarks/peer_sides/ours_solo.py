"""One model of this library against tit for tat; see `benchmarks.peers`."""

from __future__ import annotations

import json
import sys

from benchmarks.peer_sides import games
from benchmarks.peer_sides.ours_team import train

SETTINGS = {
    "models.count": 1,
    "seats": {"agent_1": "tit_for_tat"},
    "rollout.group_size": 16,
    "rollout.groups_per_round": 4,
}

if __name__ == "__main__":
    train(json.loads(sys.argv[1]), SETTINGS, games.solo, 4)
