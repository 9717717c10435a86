"""Matchmaking: which models play each group of games, and which agents they are in it.

The games of a group are compared with one another, and so have the same seating. Groups are counted
over a whole run, and what is drawn for one comes from the seed and its number: nothing has to be
remembered but the ratings, where models are matched by them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle
from typing import Any

from srl_agents import seeding
from srl_agents.episode import Episode
from srl_envs.loading import needed_by

Deal = Callable[[int], list[str]]
"""Number of a group -> the models that play its free agents, in the agents' order."""


def assign_agents(
    agents: Sequence[str], models: Sequence[str], fixed: Mapping[str, str]
) -> dict[str, str]:
    """Agent -> who plays it: as `fixed` says, and the remaining agents dealt to `models` in turn.

    Four models in an eight-player game of two teams get agents i and i + 4: one in each team.
    Raises ValueError for an agent that does not exist, and for a model left without one.
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


def in_turn(dealt: Sequence[str], *, rotate: bool) -> Deal:
    """The same models in all groups; with `rotate`, from group to group each one place further."""

    def deal(group: int) -> list[str]:
        first = group % len(dealt) if rotate else 0
        return [*dealt[first:], *dealt[:first]]

    return deal


def uniform(models: Sequence[str], agents: int, seed: int) -> Deal:
    """Models drawn uniformly, in places drawn uniformly; none plays an agent more than any other
    by more than one."""

    def deal(group: int) -> list[str]:
        rng = seeding.generator(seed, "matchmaking", group)
        order = rng.permutation(len(models))
        drawn = [models[order[place % len(models)]] for place in range(agents)]
        return [drawn[place] for place in rng.permutation(agents)]

    return deal


def round_robin(models: Sequence[str], agents: int, seed: int) -> Deal:
    """Everybody as often as everybody else, in every place, against everybody.

    In every M groups that begin at a multiple of M, the number of models, each model is each agent
    once (fewer agents than models) or as often as any other. In M (M - 1) groups each has been the
    first agent once with each of the others as each of the other agents.
    """
    count = len(models)

    def deal(group: int) -> list[str]:
        cycle, block = divmod(group // count, max(1, count - 1))
        others = seeding.generator(seed, "round_robin", cycle).permutation(range(1, count))
        turned = [*others[block:], *others[:block]]
        apart = [0, *map(int, turned)]
        return [models[(group + apart[place % count]) % count] for place in range(agents)]

    return deal


class Ratings:
    """Ratings of players by OpenSkill (the Plackett-Luce model), from the games that they play."""

    def __init__(self, models: Sequence[str]) -> None:
        with needed_by("ratings of players"):
            from openskill.models import PlackettLuce
        self._model = PlackettLuce()
        self._current = {name: self._model.rating(name=name) for name in models}
        self.games = dict.fromkeys(models, 0)
        """Model -> games that it was rated by."""

    @property
    def mu(self) -> dict[str, float]:
        """Model -> its rating, on OpenSkill's scale, on which all begin at 25."""
        return {name: float(own.mu) for name, own in self._current.items()}

    @property
    def sigma(self) -> dict[str, float]:
        """Model -> the standard deviation of its rating."""
        return {name: float(own.sigma) for name, own in self._current.items()}

    def record(self, episode: Episode, teams: Mapping[str, str] | None) -> None:
        """Rate the models of a game by the mean returns of its teams, or of its agents where it
        has no teams; a game with rated models on one side only says nothing."""
        sides: dict[str, list[str]] = {}
        for agent in episode.seats:
            sides.setdefault(teams[agent] if teams else agent, []).append(agent)
        returns = episode.returns()
        rated = {
            side: [episode.seats[agent] for agent in agents if episode.seats[agent] in self.games]
            for side, agents in sides.items()
        }
        playing = [side for side, names in rated.items() if names]
        if len(playing) < 2:
            return
        scores = [math.fsum(returns[a] for a in sides[s]) / len(sides[s]) for s in playing]
        self.rate([rated[side] for side in playing], scores)

    def rate(self, sides: Sequence[Sequence[str]], scores: Sequence[float]) -> None:
        """Rate the models of each side by what the sides scored; equal scores draw."""
        after = self._model.rate(
            [[self._current[name] for name in side] for side in sides], scores=list(scores)
        )
        for side, ratings in zip(sides, after, strict=True):
            self._current |= zip(side, ratings, strict=True)
            for name in side:
                self.games[name] += 1

    def chances(self, model: str, others: Sequence[str]) -> list[float]:
        """Each other's chance of being matched with the model: in proportion to OpenSkill's
        probability of a draw between them."""
        draws = [
            self._model.predict_draw([[self._current[model]], [self._current[other]]])
            for other in others
        ]
        return [draw / math.fsum(draws) for draw in draws]

    def state(self) -> dict[str, Any]:
        """Plain data for a checkpoint."""
        return {name: [self.mu[name], self.sigma[name], self.games[name]] for name in self.games}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` gave."""
        for name, (mu, sigma, games) in state.items():
            self._current[name] = self._model.rating(mu, sigma, name)
            self.games[name] = games


class Matchmaking:
    """Who plays which agents of a run: by name where `seats` says so, and the models in the rest.

    Drawn are the models that `seats` does not name, or all where it names every one.
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
        """`name`: fixed (see assign_agents), rotating, uniform, round_robin or rating.

        Raises ValueError for an agent that does not exist, where the agents are too few for the
        models and `fixed`, or nobody can be drawn for them, or ratings would change nothing.
        """
        self.agents, self._seed = tuple(agents), seed
        self._fixed = dict(seats)
        self._free = [agent for agent in agents if agent not in seats]
        self._models = [model for model in models if model not in seats.values()] or list(models)
        self.draws = name not in ("fixed", "rotating")
        """Whether models are drawn, and some may not play in a group."""
        self.ratings: Ratings | None = None
        """Where models are matched by them."""
        free = len(self._free)
        if not self.draws:
            rotate = name == "rotating"
            dealt = assign_agents(agents, models, seats)
            self._deal = in_turn([dealt[agent] for agent in self._free], rotate=rotate and free > 1)
            self._evaluated = self._deal
            self.varies = rotate and free > 1
            return
        assign_agents(agents, [], {**seats, **dict.fromkeys(self._free, "")})  # unknown agents
        if not free:
            raise ValueError(
                f"models are drawn ({name}) for agents that have no player, and all have one: name "
                "fewer in seats, or leave matchmaking out"
            )
        self.varies = True
        self._evaluated = round_robin(self._models, free, seed)
        self._deal = uniform(self._models, free, seed) if name == "uniform" else self._evaluated
        if name == "rating":
            if free < 2 or len(self._models) <= free:
                raise ValueError(
                    f"{len(self._models)} models to match by rating for {free} free agent(s): "
                    "there is a choice of opponents with two free agents and more models than "
                    "that; give uniform or round_robin"
                )
            self.ratings = Ratings(self._models)

    @property
    def usual(self) -> dict[str, str]:
        """Agent -> who plays it in the first game of an evaluation."""
        return self.evaluated(1)[0]

    def seatings(self, groups: range) -> list[dict[str, str]]:
        """Of each of these groups, all of which are played before `record` is told of the first:
        agent -> who plays it."""
        dealt = map(self._deal, groups) if self.ratings is None else self._matched(groups)
        return [self._seated(own) for own in dealt]

    def evaluated(self, groups: int) -> list[dict[str, str]]:
        """Of each group of an evaluation, agent -> who plays it: always the same, and where models
        are drawn, all in turn (`round_robin`)."""
        return [self._seated(self._evaluated(group)) for group in range(groups)]

    def agents_of(self, player: str) -> tuple[str, ...]:
        """The agents that a player may be, in the environment's order."""
        if self.varies:
            drawn = self._models if self.draws else self._deal(0)
            own = self._free if player in drawn else ()
            return tuple(a for a in self.agents if self._fixed.get(a) == player or a in own)
        return tuple(agent for agent, who in self.usual.items() if who == player)

    def mean_held(self, player: str) -> float:
        """How many agents of a game a player is on average."""
        named = sum(who == player for who in self._fixed.values())
        if self.draws and player in self._models:
            return named + len(self._free) / len(self._models)
        return float(sum(who == player for who in self.usual.values()))

    def most_held(self, player: str) -> int:
        """How many agents of a game a player is at most."""
        return math.ceil(self.mean_held(player))

    def record(self, episodes: Iterable[Episode], teams: Mapping[str, str] | None) -> None:
        """Move the ratings, where there are any, by what was played."""
        for episode in episodes:
            if self.ratings is not None:
                self.ratings.record(episode, teams)

    def state(self) -> dict[str, Any]:
        """Plain data for a checkpoint."""
        return {} if self.ratings is None else self.ratings.state()

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` gave."""
        if self.ratings is not None:
            self.ratings.load_state(state)

    def _seated(self, dealt: Sequence[str]) -> dict[str, str]:
        players = self._fixed | dict(zip(self._free, dealt, strict=True))
        return {agent: players[agent] for agent in self.agents}

    def _matched(self, groups: range) -> list[list[str]]:
        ratings = self.ratings
        assert ratings is not None
        played, dealt = dict.fromkeys(self._models, 0), []
        for group in groups:
            rng = seeding.generator(self._seed, "matchmaking", group)
            order = [self._models[place] for place in rng.permutation(len(self._models))]
            first = min(order, key=lambda model: (played[model], ratings.games[model]))
            others = [model for model in self._models if model != first]
            chances = ratings.chances(first, others)
            drawn = rng.choice(len(others), len(self._free) - 1, replace=False, p=chances)
            playing = [first, *(others[place] for place in drawn)]
            for model in playing:
                played[model] += 1
            dealt.append([playing[place] for place in rng.permutation(len(playing))])
        return dealt
