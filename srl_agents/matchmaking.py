"""Matchmaking: assignment of models to the agents of each group of episodes.

Episodes of a group have the same assignment, which follows from the seed and the number of the
group.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import cycle

from srl_agents import seeding


def assign_agents(
    agents: Sequence[str], models: Sequence[str], fixed: Mapping[str, str]
) -> dict[str, str]:
    """Return agent -> player: as in `fixed`, the remaining agents in turn.

    Four models in an eight-player game of two teams get agents i and i + 4: one in each team.

    Raises:
        ValueError: If an agent is unknown or a model has no agent.
    """
    unknown = sorted(set(fixed) - set(agents))
    if unknown:
        raise ValueError(f"no agent {unknown[0]!r}: the agents are {', '.join(agents)}")
    # Models that were given no agent by name come first, so that none goes without.
    turns = cycle(sorted(models, key=lambda model: model in fixed.values()))
    dealt = {agent: fixed[agent] if agent in fixed else next(turns) for agent in agents}
    idle = [model for model in models if model not in dealt.values()]
    if idle:
        raise ValueError(
            f"{idle[0]} plays no agent: {len(agents) - len(fixed)} free agent(s) for {len(models)} "
            "models; lower the number of models, choose a larger game, or have models drawn "
            "(matchmaking)"
        )
    return dealt


class Matchmaking:
    """Assignment of players to agents: by `seats`, and models for the remaining agents.

    The models in the draw are those that `seats` does not name, or all models.
    """

    def __init__(
        self,
        agents: Sequence[str],
        models: Sequence[str],
        seats: Mapping[str, str],
        name: str = "fixed",
        *,
        seed: int = 0,
    ) -> None:
        """Create an assignment.

        `name` is fixed (see assign_agents), rotating (the same, shifted by one agent from group to
        group), uniform or round_robin. Raises ValueError if an agent is unknown, agents are too
        few, or no agent or opponent can be drawn.
        """
        self.agents = tuple(agents)
        self._fixed, self._name, self._seed = dict(seats), name, seed
        self._free = [agent for agent in agents if agent not in seats]
        self._models = [model for model in models if model not in seats.values()] or list(models)
        self.draws = name not in ("fixed", "rotating")
        """True if models are drawn, so that some may be absent from a group."""
        if not self.draws:
            dealt = assign_agents(agents, models, seats)
            self._dealt = [dealt[agent] for agent in self._free]
            self.varies = name == "rotating" and len(self._free) > 1
            return
        assign_agents(agents, [], {**seats, **dict.fromkeys(self._free, "")})  # unknown agents
        if not self._free:
            raise ValueError(
                f"models are drawn ({name}) for agents that have no player, and all have one: name "
                "fewer in seats, or leave matchmaking out"
            )
        self.varies = True

    @property
    def usual(self) -> dict[str, str]:
        """Agent -> player in the first episode of an evaluation."""
        return self.evaluated(1)[0]

    def seatings(self, groups: range) -> list[dict[str, str]]:
        """Return agent -> player of each group."""
        deal = self._uniform if self._name == "uniform" else self._evaluated
        return [self._seated(deal(group)) for group in groups]

    def evaluated(self, groups: int) -> list[dict[str, str]]:
        """Return agent -> player of each group of an evaluation."""
        return [self._seated(self._evaluated(group)) for group in range(groups)]

    def agents_of(self, player: str) -> tuple[str, ...]:
        """Return the agents that a player may be, in order."""
        if self.varies:
            own = self._free if player in (self._models if self.draws else self._dealt) else ()
            return tuple(a for a in self.agents if self._fixed.get(a) == player or a in own)
        return tuple(agent for agent, who in self.usual.items() if who == player)

    def mean_held(self, player: str) -> float:
        """Return the mean number of agents of a player per episode."""
        if self.draws and player in self._models:
            named = sum(who == player for who in self._fixed.values())
            return named + len(self._free) / len(self._models)
        return float(sum(who == player for who in self.usual.values()))

    def most_held(self, player: str) -> int:
        """Return the largest number of agents of a player per episode."""
        return math.ceil(self.mean_held(player))

    def _evaluated(self, group: int) -> list[str]:
        if self.draws:
            return self._round_robin(group)
        first = group % len(self._dealt) if self.varies else 0
        return [*self._dealt[first:], *self._dealt[:first]]

    def _uniform(self, group: int) -> list[str]:
        # Numbers of agents per model differ by at most one.
        rng = seeding.generator(self._seed, "matchmaking", group)
        order = rng.permutation(len(self._models))
        places = range(len(self._free))
        drawn = [self._models[order[place % len(order)]] for place in places]
        return [drawn[place] for place in rng.permutation(len(places))]

    def _round_robin(self, group: int) -> list[str]:
        """Return the models of a schedule in which all meet equally often in all places.

        In every M groups from a multiple of M, the number of models, each model is each agent
        equally often. In M (M - 1) groups each model is the first agent once with each other model
        as each other agent.
        """
        count = len(self._models)
        number, block = divmod(group // count, max(1, count - 1))
        others = seeding.generator(self._seed, "round_robin", number).permutation(range(1, count))
        apart = [0, *map(int, [*others[block:], *others[:block]])]
        return [
            self._models[(group + apart[place % count]) % count] for place in range(len(self._free))
        ]

    def _seated(self, dealt: Sequence[str]) -> dict[str, str]:
        players = self._fixed | dict(zip(self._free, dealt, strict=True))
        return {agent: players[agent] for agent in self.agents}
