"""Assignment of models to the agents of each group of episodes.

All episodes of a group have the same assignment, a function of the seed and the group's number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import cycle

from srl_agents import seeding

RULES = ("fixed", "rotating", "uniform", "round_robin")


def assign_agents(
    agents: Sequence[str], models: Sequence[str], fixed: Mapping[str, str]
) -> dict[str, str]:
    """Return agent -> player, in the order of `agents`.

    An agent in `fixed` (agent -> player) has its player there. The other agents have the models in
    turn, first those without an agent in `fixed`, and repeated if necessary. Raises ValueError
    for an unknown agent in `fixed`, an agent without a player, and a model without an agent.
    """
    if unknown := sorted(set(fixed) - set(agents)):
        raise ValueError(f"agents must be among {', '.join(agents)}, got {unknown[0]!r}")
    if not models and len(fixed) < len(agents):
        raise ValueError("models must name at least one, got none")
    # Models that `fixed` does not name come first, so that each gets an agent if possible.
    turns = cycle(sorted(models, key=lambda model: model in fixed.values()))
    assigned = {agent: fixed[agent] if agent in fixed else next(turns) for agent in agents}
    idle = [model for model in models if model not in assigned.values()]
    if idle:
        raise ValueError(
            f"every model must play an agent, but {idle[0]} does not: {len(agents) - len(fixed)} "
            f"free agent(s) for {len(models)} models; lower models.count, choose a larger game, or "
            "draw models (matchmaking)"
        )
    return assigned


class Matchmaking:
    """Assignment of players to agents, which may differ between groups of episodes."""

    def __init__(
        self,
        agents: Sequence[str],
        models: Sequence[str],
        seats: Mapping[str, str],
        name: str = "fixed",
        *,
        seed: int = 0,
    ) -> None:
        """Create an assignment; `seats` is agent -> player of the agents with a fixed player.

        `name` is "fixed" (see assign_agents), "rotating" (as "fixed", but the other agents' models
        shift by one agent per group), "uniform" (models drawn per group) or "round_robin" (models
        in a balanced schedule). The last two draw models in `seats` only if all are there.

        Raises ValueError for another `name`, no models, and an unknown agent in `seats`. "fixed"
        and "rotating" also raise it for a model without an agent, the others without a free agent.
        """
        if name not in RULES:
            raise ValueError(f"matchmaking must be one of {', '.join(RULES)}, got {name!r}")
        self.agents = tuple(agents)
        self._fixed, self._name, self._seed = dict(seats), name, seed
        self._free = [agent for agent in agents if agent not in seats]
        self._models = [model for model in models if model not in seats.values()] or list(models)
        self.draws = name not in ("fixed", "rotating")
        """True if models are drawn, so that some may be absent from a group."""
        if not self.draws:
            assigned = assign_agents(agents, models, seats)
            self._in_turn = [assigned[agent] for agent in self._free]
            self.varies = name == "rotating" and len(self._free) > 1
            """True if the assignment differs between groups."""
            return
        if not self._free:
            raise ValueError(
                f"matchmaking {name} needs an agent without a player, but seats names one for "
                "every agent"
            )
        assign_agents(agents, self._models[:1], seats)
        self.varies = True

    @property
    def usual(self) -> dict[str, str]:
        """Agent -> player in the first group of an evaluation."""
        return self.evaluated(1)[0]

    def seatings(self, groups: range) -> list[dict[str, str]]:
        """Return a list of agent -> player, one per training group number in `groups`."""
        draw = self._uniform if self._name == "uniform" else self._ordered
        return [self._with_fixed(draw(group)) for group in groups]

    def evaluated(self, groups: int) -> list[dict[str, str]]:
        """Return a list of agent -> player, one per group of an evaluation, from number 0.

        "uniform" has the assignments of "round_robin" here.
        """
        return [self._with_fixed(self._ordered(group)) for group in range(groups)]

    def agents_of(self, player: str) -> tuple[str, ...]:
        """Return all agents that the player may play, in the environment's order; may be empty."""
        if self.varies:
            own = self._free if player in (self._models if self.draws else self._in_turn) else ()
            return tuple(a for a in self.agents if self._fixed.get(a) == player or a in own)
        return tuple(agent for agent, name in self.usual.items() if name == player)

    def mean_held(self, player: str) -> float:
        """Return the player's mean number of agents per episode, 0.0 for an unknown player."""
        if self.draws and player in self._models:
            named = sum(name == player for name in self._fixed.values())
            return named + len(self._free) / len(self._models)
        return float(sum(name == player for name in self.usual.values()))

    def most_held(self, player: str) -> int:
        """Return the player's maximum number of agents in an episode, 0 for an unknown player."""
        return math.ceil(self.mean_held(player))

    def _ordered(self, group: int) -> list[str]:
        if self.draws:
            return self._round_robin(group)
        first = group % len(self._in_turn) if self.varies else 0
        return [*self._in_turn[first:], *self._in_turn[:first]]

    def _uniform(self, group: int) -> list[str]:
        rng = seeding.generator(self._seed, "matchmaking", group)
        order = rng.permutation(len(self._models))
        places = range(len(self._free))
        drawn = [self._models[order[place % len(order)]] for place in places]
        return [drawn[place] for place in rng.permutation(len(places))]

    def _round_robin(self, group: int) -> list[str]:
        """Return the free agents' models; in a block of M groups, M models play each agent once."""
        count = len(self._models)
        number, block = divmod(group // count, max(1, count - 1))
        others = seeding.generator(self._seed, "round_robin", number).permutation(range(1, count))
        apart = [0, *map(int, [*others[block:], *others[:block]])]
        return [
            self._models[(group + apart[place % count]) % count] for place in range(len(self._free))
        ]

    def _with_fixed(self, models: Sequence[str]) -> dict[str, str]:
        players = self._fixed | dict(zip(self._free, models, strict=True))
        return {agent: players[agent] for agent in self.agents}
