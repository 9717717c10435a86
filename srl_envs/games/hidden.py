"""Games whose rules differ between episodes and are hidden from the agents."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from statistics import fmean
from typing import Any

import numpy as np

from srl_envs.errors import EnvConfigError
from srl_envs.games import base
from srl_envs.games.turnover import TurnoverGame
from srl_envs.seeding import RandomSource
from srl_envs.text import TextView
from srl_envs.validation import Reset, check_choice, reset_arguments, whole_number

SPLITS = ("train", "test")
FIND_OUT = (
    "Whether cooperating or competing pays more differs from game to game and is not shown: find "
    "it out from what you earn."
)
"""Sentence of the rules in text."""
STREAM = 1
"""Second part of the seed of the random stream that draws rule sets, after the seed of `reset`."""


def grid(**values: Sequence[Any]) -> tuple[dict[str, Any], ...]:
    """Return one dict (name -> value) per combination of values; the last name varies fastest."""
    return tuple(dict(zip(values, row, strict=True)) for row in product(*values.values()))


def with_split(
    kind: Any, fields: Sequence[str], drawn: Mapping[str, Sequence[Mapping[str, Any]]]
) -> Callable[..., Any]:
    """Return a function with the keyword arguments of `kind` and `split` that makes a game.

    The function makes a `kind` if `split` is None, the default, and a HiddenRules otherwise.

    Args:
        kind: Class of the game.
        fields: Names of the entries of its observation vectors.
        drawn: Split ("train" and "test") -> arguments of each rule set.
    """

    def parallel_env(*, split: str | None = None, **arguments: Any) -> Any:
        if split is None:
            return kind(**arguments)
        return HiddenRules(kind, fields, drawn, split, **arguments)

    signature = inspect.signature(kind)
    last = inspect.Parameter("split", inspect.Parameter.KEYWORD_ONLY, default=None)
    named: Any = parallel_env
    named.__signature__ = signature.replace(parameters=[*signature.parameters.values(), last])
    named.__module__, named.__qualname__ = kind.__module__, named.__name__  # so that it pickles
    named.__doc__ = f"Make {kind.__name__}, or HiddenRules if `split` is not None."
    return parallel_env


class HiddenRules(TurnoverGame):
    """Game that draws its rules in every episode and hides them from the agents.

    Every rule set is a game of class `kind`. An episode plays one of them, drawn uniformly. The
    roles are assigned to agent_0, agent_1, ... at random. Infos of a round are those of `kind`,
    with `rule_set` (index in `rule_sets`) and, in a game of teams, `side` (the agent's team).
    Observations have HIDDEN instead of drawn arguments.

    The draws have a separate random stream. `reset(options={"rule_set": k})` selects the rule
    set of one episode, not its roles. Other options are those of `kind`.

    Args:
        kind: Class of the games. It has methods `constants` and `scripted_value`, as ChoiceGame.
        fields: Names of the entries of its observation vectors.
        drawn: Split -> arguments of each rule set. All rule sets draw the same arguments.
        split: "train", "test" or "any": both, the rule sets of "train" first.
        talk: Number of words that an action can add, from 0 to 8; see TalkingGame.
        turnover: Number of agents that join during an episode, from 0 to `max_cycles` - 1.
        obs_mode: "vector", "dict" or "llm"; see SimultaneousGame.
        render_mode: "human", "ansi", "rgb_array" or None.
        **arguments: Arguments that all rule sets have in common.

    Raises:
        EnvConfigError: An argument is invalid, or is one of those that are drawn.
    """

    def __init__(
        self,
        kind: Any,
        fields: Sequence[str],
        drawn: Mapping[str, Sequence[Mapping[str, Any]]],
        split: str,
        *,
        talk: int = 0,
        turnover: int = 0,
        obs_mode: str = "vector",
        render_mode: str | None = None,
        **arguments: Any,
    ) -> None:
        self.split: str = check_choice("split", split, (*SPLITS, "any"))
        chosen = [one for name in SPLITS if split in (name, "any") for one in drawn[name]]
        for name in sorted(arguments.keys() & chosen[0].keys()):
            raise EnvConfigError(f"{name} must not be given with split={split!r}, which draws it")
        self.rule_sets: tuple[Any, ...] = tuple(kind(**arguments, **one) for one in chosen)
        """Game of each rule set."""
        for game in self.rule_sets:
            game.hides_rules = True
        first = self.rule_sets[0]
        name = kind.metadata["name"].replace("_v0", "_v1")
        self.metadata = {**kind.metadata, "name": name}  # type: ignore[misc]  # differs by game
        self._hidden = [at for at, field in enumerate(fields) if field in chosen[0]]
        boxes = [game.observation_space(game.possible_agents[0]) for game in self.rule_sets]
        low = np.min([box.low for box in boxes], axis=0)
        low[self._hidden] = base.HIDDEN
        self._draws = RandomSource()
        self._number, self._places = 0, [0]
        super().__init__(
            [f"agent_{number}" for number in range(len(first.possible_agents))],
            range(first.action_space(first.possible_agents[0]).n),
            low=low.tolist(),
            high=np.max([box.high for box in boxes], axis=0).tolist(),
            noise_std=first.noise_std,
            talk=talk,
            turnover=turnover,
            max_cycles=first.max_cycles,
            obs_mode=obs_mode,
            render_mode=render_mode,
        )

    def baselines(self) -> dict[str, float]:
        """Return exact mean rewards per agent and step of reference policies, over all rule sets.

        Rewards are without noise. "uniform" plays randomly; "constant" is the constant policy with
        the best mean, whose action may depend on a role that the agent observes; "scripted" is
        `scripted_value` of `kind`, missing with turnover; "optimum" is an upper bound: the best
        joint actions of agents that know the rules.
        """
        games = self.rule_sets
        for game in games:
            game.max_cycles = self.max_cycles
        known = [game.baselines() for game in games]
        constants = zip(*(game.constants() for game in games), strict=True)
        return {
            "uniform": fmean(values["uniform"] for values in known),
            "constant": max(map(fmean, constants)),
            **({} if self.turnover else {"scripted": fmean(one.scripted_value() for one in games)}),
            "optimum": fmean(values["optimum"] for values in known),
        }

    def make_view(self) -> TextView:
        game = self.rule_sets[0]
        game.max_cycles, game.turnover = self.max_cycles, self.turnover
        view: TextView = game.make_view()
        return view

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        seed, given = reset_arguments(seed, options)
        if seed is not None:
            self._draws.np_random = np.random.default_rng((seed, STREAM))
        return super().reset(seed, given)

    def first_rows(self, options: Mapping[str, Any]) -> Sequence[base.Row]:
        rng, last = self._draws.np_random, len(self.rule_sets) - 1
        number = options.get("rule_set", rng.integers(last + 1))
        self._number = whole_number('options["rule_set"]', number, 0, last)
        game = self.rule_sets[self._number]
        game.order = rng.permutation(len(game.possible_agents)).tolist()
        self._places = np.argsort(game.order).tolist()
        game.played, game.rounds, game._episode = 0, self.rounds, self._episode
        rows = game.first_rows(options)
        self._episode = game._episode
        return self._shown_rows(rows)

    def play_round(self, chosen: Sequence[int], over: bool) -> base.Played:
        game = self.rule_sets[self._number]
        game.played, game.np_random, game._noise = self.played, self.np_random, self._noise
        rows, rewards, infos = game.play_round([chosen[agent] for agent in game.order], over)
        self._noise = game._noise
        for place, info in enumerate(infos):
            info["rule_set"] = self._number
            if game.teams is not None:
                info["side"] = game.teams[game.possible_agents[place]]
        earned, told = [rewards[i] for i in self._places], [infos[i] for i in self._places]
        return self._shown_rows(rows), earned, told

    def newcomer_row(self, row: base.Row) -> base.Row:
        row = self.rule_sets[self._number].newcomer_row(row)
        return row

    def _shown_rows(self, rows: Sequence[base.Row]) -> Sequence[base.Row]:
        """Return `rows` (in role order) in agent order; hidden fields are HIDDEN."""
        shown = np.array(rows)[self._places]
        shown[:, self._hidden] = base.HIDDEN
        found: list[list[float]] = shown.tolist()
        return found
