"""Games whose agents leave during an episode and are replaced by agents that join."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from srl_envs.games import base
from srl_envs.games.cheap_talk import TalkingGame
from srl_envs.validation import MOST_PLAYERS, Reset, Step, whole_number


class TurnoverGame(TalkingGame):
    """Game in which agents leave during an episode and others join at their places.

    The number of places is constant, and one agent acts at each. More agents, named agent_N, are
    absent at first. After random rounds, the agent at a random place is terminated, and the next
    absent agent joins: it receives its first observation, with reward 0, and acts from the next
    round on. All agents have joined by the last round.

    `first_rows`, `play_round` and `agents` have one entry per place.

    Args:
        agents: Names of the agents at first.
        *game: Positional arguments `answers`, `low` and `high` of TalkingGame.
        turnover: Number of agents that join during an episode, from 0 to `max_cycles` - 1.
        **settings: Other arguments of TalkingGame.
    """

    def __init__(
        self, agents: Sequence[str], *game: Any, turnover: int = 0, **settings: Any
    ) -> None:
        rounds = whole_number("max_cycles", settings["max_cycles"], low=1)
        self.turnover = whole_number("turnover", turnover, 0, min(rounds - 1, MOST_PLAYERS))
        self._seats = list(agents)  # agent at each place
        joining = [f"agent_{i}" for i in range(len(agents), len(agents) + self.turnover)]
        if joining:  # Agents that join act in fewer rounds, so that their returns are lower.
            self.roles = {agent: agent for agent in joining}
        self._changes: dict[int, tuple[int, str]] = {}
        """Number of a round -> place that changes after it, and the agent that joins."""
        super().__init__([*agents, *joining], *game, **settings)
        self._every_action = self._every_action[self.turnover :]

    def newcomer_row(self, row: base.Row) -> base.Row:
        """Return the first vector of an agent that joins, given the leaving agent's last vector."""
        raise NotImplementedError

    def begin(self, options: Mapping[str, Any]) -> None:
        whole_number("turnover", self.turnover, 0, self.rounds - 1)
        super().begin(options)
        places = len(self.possible_agents) - self.turnover
        self._seats = self.possible_agents[:places]
        if self.turnover:
            joining, rng = self.possible_agents[places:], self.np_random
            rounds = sorted(1 + rng.choice(self.rounds - 1, len(joining), replace=False))
            drawn = rng.integers(places, size=len(joining)).tolist()
            changes = zip(drawn, joining, strict=True)
            self._changes = dict(zip(map(int, rounds), changes, strict=True))

    def step(self, actions: Mapping[str, Any]) -> Step:
        outcome = super().step(actions)
        if not self.agents or self.played not in self._changes:
            return outcome
        observations, rewards, terminations, truncations, infos = outcome
        place, joins = self._changes[self.played]
        terminations[self.agents[place]] = True
        self._rows = list(self._rows)
        self._rows[place] = self.newcomer_row(self._rows[place])
        self._seats[place] = joins
        self.agents = self._seats.copy()
        seen, told = self._outgoing(self.agents, [{} for _ in self.agents])
        observations[joins], infos[joins] = seen[joins], told[joins]
        rewards[joins], terminations[joins], truncations[joins] = 0.0, False, False
        return outcome

    def _first(self) -> Reset:
        self.agents = self._seats.copy()
        return super()._first()

    def _vectors(self) -> Sequence[base.Row]:
        rows = dict(zip(self._seats, self._rows, strict=True))
        absent = [0.0] * len(self._rows[0])
        return [rows.get(agent, absent) for agent in self.possible_agents]
