"""Scenarios: evaluated agents, background agents and holdouts."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import Any

from srl_envs import registry
from srl_envs.errors import EnvConfigError
from srl_envs.tasks.multitask import Multitask
from srl_envs.validation import likely

_NOTHING: Mapping[str, Any] = MappingProxyType({})
ROLES = ("alone", "visitor", "even", "resident")


@dataclass(frozen=True)
class Scenario:
    """One scenario."""

    name: str
    environment: str
    """A name from the registry."""
    description: str
    focal: tuple[str, ...]
    """The agents that are scored."""
    background: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    """Agent -> policy, for all agents that are not focal. Scenarios of this package use scripted
    policies; your own may name any policy, such as the folder of a run."""
    options: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    """Keyword arguments of the environment."""
    held_out_partners: tuple[str, ...] = ()
    """Background policies that training excludes."""
    held_out_options: tuple[str, ...] = ()
    """Names of options whose combination of values training excludes."""

    @property
    def holdout(self) -> bool:
        """True if a part of the scenario is kept for evaluation."""
        return bool(self.held_out_partners or self.held_out_options)

    @property
    def role(self) -> str:
        """Role of the focal agents, one of ROLES.

        "visitor" in the minority, "resident" in the majority, "even" for half of the agents,
        "alone" without a background.
        """
        focal, background = len(self.focal), len(self.background)
        if not background:
            return "alone"
        if focal == background:
            return "even"
        return "visitor" if focal < background else "resident"

    @property
    def tags(self) -> tuple[str, ...]:
        """Role, "held-out partners" and "held-out levels", as they apply."""
        partners = ("held-out partners",) if self.held_out_partners else ()
        levels = ("held-out levels",) if self.held_out_options else ()
        return (self.role, *partners, *levels)

    def make(self) -> Any:
        """The scenario's environment, a PettingZoo ParallelEnv."""
        return registry.make(self.environment, **self.options)


OWN_PROBLEMS = ("path", "problems", "topics")
"""Options that put problems of one's own in the place of ours."""
EVERYBODY = ".all"
"""Ends the name of the scenario of an environment of one's own."""


def names(environment: str | None = None, holdout: bool | None = None) -> tuple[str, ...]:
    """The names of all scenarios, or of those of one environment, held out or not.

    One of your own, 'module:function', has one, in which every agent is focal. Raises
    EnvConfigError for an environment that is not in the registry.
    """
    if environment is not None and ":" in environment:
        return () if holdout else (f"{environment}{EVERYBODY}",)
    if environment is not None:
        registry.entry(environment)
    return tuple(
        name
        for name, found in SCENARIOS.items()
        if environment in (None, found.environment) and holdout in (None, found.holdout)
    )


def environments() -> tuple[str, ...]:
    """The environments that have scenarios, in the registry's order."""
    played = {found.environment for found in SCENARIOS.values()}
    return tuple(name for name in registry.names() if name in played)


def scenario(name: str) -> Scenario:
    """The scenario `name`; raises EnvConfigError with the nearest for an unknown one.

    'module:function.all' is that of an environment of your own, which is made to see its agents.
    """
    if isinstance(name, str) and ":" in name and name.endswith(EVERYBODY):
        own = name.removesuffix(EVERYBODY)
        with closing(registry.make(own)) as env:
            return Scenario(name, own, "an environment of your own", tuple(env.possible_agents))
    found = SCENARIOS
    if not isinstance(name, str) or name not in found:
        game = str(name).partition(".")[0]
        near = [other for other in found if other.startswith(f"{game}.")]
        there = near or [f"{environment}.*" for environment in environments()]
        raise EnvConfigError(
            f"there is no scenario {name!r}{likely(name, found)}; there are: {', '.join(there)}"
        )
    return found[name]


def kept_for_evaluation(environment: str, options: Mapping[str, Any]) -> Scenario | None:
    """The first scenario whose held-out levels the environment would play with these options.

    `environment` is a name as `registry.make` takes it; all that one module makes counts as one
    game. What `options` leave out is at its default. None where training may have them.
    """
    entry = registry.ENVS.get(environment)
    module = environment.partition(":")[0] if entry is None else entry.module
    game = [
        found
        for found in SCENARIOS.values()
        if found.held_out_options and registry.entry(found.environment).module == module
    ]
    if not game:  # also one of the user's own
        return None
    takes = inspect.signature(import_module(module).parallel_env).parameters
    given = {name: parameter.default for name, parameter in takes.items()}
    given |= {**({} if entry is None else entry.defaults), **options}
    for found in game:
        if all(_plays(given, name, found.options[name]) for name in found.held_out_options):
            return found
    return None


def _plays(given: Mapping[str, Any], option: str, kept: Any) -> bool:
    """Return True if the options, with defaults, include the held-out value."""
    if option != "split" or given[option] != "any":
        return bool(given[option] == kept)
    # "any" includes the test split, unless the problems are the user's own.
    return all(given.get(own) is None for own in OWN_PROBLEMS)


def refuse_levels(where: str, name: str, options: Mapping[str, Any], env: Any) -> None:
    """Raise EnvConfigError if training on `env` would use held-out levels.

    Args:
        where: Beginning of the names of settings in errors.
        name: Name of the environment.
        options: Options with which the environment was made.
        env: The environment.
    """
    game = env.unwrapped
    if isinstance(game, Multitask):
        for label, member in game.environments.items():
            told = game.named[label]
            own = told.get("options") or {}
            refuse_levels(f"{where}.options.environments.{label}", told["name"], own, member)
        return
    split = getattr(game, "split", None)
    # Whoever trains on a file of problems has chosen them: there "any" is the default.
    chosen = getattr(getattr(game, "task", None), "split", None) == split
    if split == "test" or (split == "any" and not chosen):
        raise EnvConfigError(
            f"{where}.options.split is {split!r}: the levels of the test split are "
            "kept for evaluation (srl eval --held-out only); leave split out to train"
        )
    # Objects, and functions of one's own that wrap a game of the catalogue, say how it was made.
    made = [getattr(one, how, None) for one in (env, game) for how in ("made_as", "made_within")]
    ways = [(name, options), *((how["name"], how["options"]) for how in made if how)]
    kept_of = (kept_for_evaluation(*way) for way in ways)
    found = next((scenario for scenario in kept_of if scenario is not None), None)
    if found is not None:
        kept = ", ".join(f"{name}={found.options[name]}" for name in found.held_out_options)
        raise EnvConfigError(
            f"{where}.options {kept} together are the levels of scenario {found.name}, kept "
            "for evaluation: change one of them to train"
        )


ROUNDS = 16  # of the games of cooperating and competing
SMALL = {"width": 5, "height": 5, "max_cycles": 40}  # mazes of the documented simple size
LARGE = {"width": 9, "height": 9, "max_cycles": 81}
FOUR = ("agent_0", "agent_1", "agent_2", "agent_3")
ONE = FOUR[:1]


def _scenario(
    game: str,
    options: Mapping[str, Any],
    special: str,
    description: str,
    focal: tuple[str, ...],
    background: Mapping[str, Sequence[str]] = MappingProxyType({}),
    *,
    holdout: bool = False,
    holdout_options: Mapping[str, Any] = MappingProxyType({}),
) -> Scenario:
    """`background`: partner -> its agents, all held out from training with `holdout`, as are the
    `holdout_options`, which come on top of `options`."""
    return Scenario(
        f"{game}.{special}",
        game,
        description,
        focal,
        {agent: partner for partner, agents in background.items() for agent in agents},
        {**options, **holdout_options},
        held_out_partners=tuple(background) if holdout else (),
        held_out_options=tuple(holdout_options),
    )


def _coordination() -> Sequence[Scenario]:
    four = partial(_scenario, "coop_compete_v0", {"num_agents": 4, "max_cycles": ROUNDS})
    pair = partial(_scenario, "coop_compete_pair_v0", {"max_cycles": ROUNDS})
    other = FOUR[1:2]
    return (
        four("one_among_cooperators", "one newcomer among three that always cooperate",
             ONE, {"always_cooperate": FOUR[1:]}),
        four("one_among_competitors",
             "one newcomer among three that always compete: what paid elsewhere does not pay here",
             ONE, {"always_compete": FOUR[1:]}),
        four("three_and_tit_for_tat", "three focal agents settle what a fourth will follow",
             FOUR[:3], {"tit_for_tat": FOUR[3:]}),
        four("two_and_two_grim_triggers", "two focal agents, two that never forgive the majority",
             FOUR[:2], {"grim_trigger": FOUR[2:]}, holdout=True),
        four("three_and_an_alternator", "three focal agents with one that changes every round",
             FOUR[:3], {"alternator": FOUR[3:]}, holdout=True),
        pair("always_cooperate", "a partner that always cooperates",
             ONE, {"always_cooperate": other}),
        pair("always_compete", "a partner that always competes: agree with it",
             ONE, {"always_compete": other}),
        pair("tit_for_tat", "a partner that repeats what the focal agent did",
             ONE, {"tit_for_tat": other}),
        pair("pavlov", "a partner that cooperates after agreement",
             ONE, {"pavlov": other}, holdout=True),
        pair("alternator", "a partner that alternates: agreeing takes foresight",
             ONE, {"alternator": other}, holdout=True),
    )  # fmt: skip


def _teams() -> Sequence[Scenario]:
    battle = partial(_scenario, "team_battle_v0", {"team_size": 3, "max_cycles": ROUNDS})
    red, blue = (tuple(f"{team}_{number}" for number in range(3)) for team in ("red", "blue"))
    return (
        battle("against_cooperators", "a focal team against one that always cooperates",
               red, {"always_cooperate": blue}),
        battle("against_tit_for_tat", "a focal team against one that pays back",
               red, {"tit_for_tat": blue}),
        battle("joining_a_team", "one newcomer in a team of cooperators, against random play",
               red[:1], {"always_cooperate": red[1:], "uniform": blue}),
        battle("against_generous", "a focal team against one that mostly pays back",
               red, {"generous_tit_for_tat": blue}, holdout=True),
        battle("two_teams_and_two_grim",
               "two focal agents in each team, each beside one that never forgives the rivals",
               (*red[:2], *blue[:2]), {"grim_trigger": (red[2], blue[2])}, holdout=True),
    )  # fmt: skip


def _stages() -> Sequence[Scenario]:
    staged = partial(_scenario, "staged_v0", {"num_agents": 4, "max_cycles": ROUNDS})
    outer = (FOUR[0], FOUR[3])
    return (
        staged("adversary_among_cooperators", "the focal agent is the adversary, among cooperators",
               ONE, {"always_cooperate": FOUR[1:]}),
        staged("with_a_preying_adversary",
               "three focal agents, and an adversary that always competes",
               FOUR[1:], {"always_compete": ONE}),
        staged("two_and_two_followers",
               "two focal agents that are no adversaries; the others do what the majority did",
               FOUR[1:3], {"tit_for_tat": outer}),
        staged("with_a_changing_adversary",
               "three focal agents, and an adversary that mostly cooperates",
               FOUR[1:], {"mostly_cooperate": ONE}, holdout=True),
        staged("two_and_two_pavlovs",
               "two focal agents that are no adversaries; the others cooperate after agreement",
               FOUR[1:3], {"pavlov": outer}, holdout=True),
    )  # fmt: skip


def _bandits() -> Sequence[Scenario]:
    length = {"max_cycles": 40, "switch_pull": 10}
    arms = partial(_scenario, "bandit_v0", length)
    crowd = partial(_scenario, "bandit_v0", {**length, "num_agents": 4})
    untold = partial(_scenario, "bandit_v0", {**length, "observe_switch": False})
    better_left = {"arm0_prob": 0.8, "arm1_prob_start": 0.6, "arm1_prob_after": 0.3}
    spoilt_right = {"arm0_prob": 0.5, "arm1_prob_start": 0.9, "arm1_prob_after": 0.1}
    return (
        arms("documented_arms", "the documented chances, in a shorter game", ONE),
        crowd("among_learners", "one focal agent sees three learners pull",
              ONE, {"thompson_sampling": FOUR[1:]}),
        crowd("three_and_a_shifter", "three focal agents, and one that shifts after a loss",
              FOUR[:3], {"win_stay_lose_shift": FOUR[3:]}),
        arms("left_is_better", "held-out chances: the left arm is the better one throughout",
             ONE, holdout_options=better_left),
        untold("right_spoils_unseen",
               "held-out chances: the right arm turns from the best to the worst, and nothing "
               "tells", ONE, holdout_options=spoilt_right),
    )  # fmt: skip


def _mazes() -> Sequence[Scenario]:
    unseen = {"split": "test"}
    loops = {**LARGE, "loop_share": 0.3}

    def alone(special: str, description: str, size: Mapping[str, Any], **held: Any) -> Scenario:
        return _scenario("maze_v0", size, special, description, ONE, **held)

    def beside(
        game: str, special: str, description: str, who: str, size: Mapping[str, Any], **held: Any
    ) -> Scenario:
        partner = {who: FOUR[1:2]}
        return _scenario(game, size, special, description, ONE, partner, **held)

    found = [
        alone("small", "new small mazes, of those that training has", SMALL),
        alone("large", "new large mazes, of those that training has", LARGE),
        alone("small_unseen", "small mazes that training never has", SMALL, holdout_options=unseen),
        alone("large_unseen", "large mazes that training never has", LARGE, holdout_options=unseen),
        alone("loops_unseen", "mazes with loops that training never has", loops,
              holdout_options=unseen),
    ]  # fmt: skip
    for game, aim in (("maze_race_v0", "a race against"), ("maze_meet_v0", "meeting")):
        own = partial(beside, game)
        found += [
            own("random_walker", f"{aim} one that walks at random", "random_walker", SMALL),
            own("greedy_walker", f"{aim} one that heads for its goal", "greedy_walker", SMALL),
            own("explorer_unseen", f"{aim} one that remembers, in mazes training never has",
                "explorer", SMALL, holdout_options=unseen),
            own("wall_follower", f"{aim} one that keeps to the wall", "wall_follower", SMALL,
                holdout=True),
            own("wall_follower_unseen",
                f"{aim} one that keeps to the wall, in mazes training never has", "wall_follower",
                SMALL, holdout=True, holdout_options=unseen),
        ]  # fmt: skip
    own = partial(beside, "maze_own_v0")  # agents do not hinder each other here, the mazes differ
    return [
        *found,
        own("small", "small mazes, beside one that walks at random", "random_walker", SMALL),
        own("large", "large mazes, beside one that remembers", "explorer", LARGE),
        own("small_unseen", "small mazes training never has, beside one that remembers",
            "explorer", SMALL, holdout_options=unseen),
        own("loops_unseen", "mazes with loops that training never has, beside one that remembers",
            "explorer", loops, holdout_options=unseen),
        own("wall_follower", "large mazes, beside one that keeps to the wall", "wall_follower",
            LARGE, holdout=True),
    ]  # fmt: skip


def _markets() -> Sequence[Scenario]:
    game, options = "social_trading_v0", {"num_agents": 4, "max_cycles": 24}
    market = partial(_scenario, game, options)
    binding = partial(_scenario, game, {**options, "agreements": "binding"})
    return (
        market("one_among_honest", "one newcomer among honest traders",
               ONE, {"truthful_trader": FOUR[1:]}),
        market("three_and_a_defaulter", "three focal traders and one that never delivers",
               FOUR[:3], {"defaulting_trader": FOUR[3:]}),
        binding("binding", "one newcomer among honest traders whose agreements bind",
                ONE, {"truthful_trader": FOUR[1:]}),
        market("whom_to_trust", "one newcomer, one honest trader and two that default",
               ONE, {"truthful_trader": FOUR[1:2], "defaulting_trader": FOUR[2:]}),
        market("hard_bargainers", "one newcomer among traders that ask for the most",
               ONE, {"hard_bargainer": FOUR[1:]}, holdout=True),
        market("trust_betrayed", "three focal traders and one that keeps its word until late",
               FOUR[:3], {"late_defaulter": FOUR[3:]}, holdout=True),
    )  # fmt: skip


def _bargains() -> Sequence[Scenario]:
    two = partial(_scenario, "social_negotiation_v0", {})
    at_once = partial(_scenario, "social_negotiation_v0", {"offers": "simultaneous"})
    three = partial(_scenario, "social_negotiation_v0", {"num_agents": 3, "max_cycles": 15})
    other = FOUR[1:2]
    return (
        two("conceder", "a partner that gives way early", ONE, {"conceder": other}),
        two("reciprocator", "a partner that gives way as far as the focal agent does",
            ONE, {"reciprocator": other}),
        at_once("at_the_same_time", "both propose at once; the partner gives way early",
                ONE, {"conceder": other}),
        three("two_and_a_conceder", "two focal agents and one that gives way early",
              FOUR[:2], {"conceder": FOUR[2:3]}),
        two("boulware", "a partner that gives way only at the deadline",
            ONE, {"boulware": other}, holdout=True),
        two("stubborn", "a partner that asks for its favourite deal to the end",
            ONE, {"stubborn": other}, holdout=True),
        three("between_hard_fronts", "one focal agent with two that give way only late",
              ONE, {"boulware": FOUR[1:3]}, holdout=True),
    )  # fmt: skip


ONCE = {"max_cycles": 1}
EASY, MIDDLE, HARD = {"difficulty": 1}, {"difficulty": (1, 3)}, {"difficulty": (4, 5)}
# As examples/configs/tool_use.yaml trains.
TWO_TOOLS: dict[str, Any] = {
    "families": "read and calculate", "tools": ("calculator", "files"), "difficulty": 1,
    "history": 0, "max_cycles": 3,
}  # fmt: skip


def _task(
    game: str,
    special: str,
    description: str,
    options: dict[str, Any],
    *,
    unseen: bool = False,
    focal: tuple[str, ...] = ("agent_0",),
) -> Scenario:
    return Scenario(
        f"{game}.{special}", game, description, focal,
        options={**options, **({"split": "test"} if unseen else {})},
        held_out_options=("split",) if unseen else (),
    )  # fmt: skip


def _mathematics() -> Sequence[Scenario]:
    game = "math_v0"
    digits = {"families": "arithmetic", **EASY, **ONCE}
    return (
        _task(game, "one_digit", "one-digit sums of those that training has, one attempt", digits),
        _task(game, "one_digit_unseen", "one-digit sums that training never has", digits,
              unseen=True),
        _task(game, "arithmetic_unseen", "arithmetic of all difficulties, one attempt",
              {"families": "arithmetic", **ONCE}, unseen=True),
        _task(game, "algebra_unseen", "algebra of all difficulties, one attempt",
              {"families": "algebra", **ONCE}, unseen=True),
        _task(game, "word_problems_unseen", "word problems of all difficulties, one attempt",
              {"families": "word problems", **ONCE}, unseen=True),
        _task(game, "multi_step_unseen", "problems of two to six steps, one attempt",
              {"families": "multi-step", **ONCE}, unseen=True),
        _task(game, "all", "all families and difficulties, of the problems that training has",
              ONCE),
        _task(game, "all_unseen", "all families and difficulties, one attempt", ONCE, unseen=True),
        _task(game, "three_attempts_unseen",
              "all families and difficulties; whoever was wrong is told so, twice at most",
              {"max_cycles": 3}, unseen=True),
    )  # fmt: skip


def _programming() -> Sequence[Scenario]:
    game = "code_v0"
    line = {"families": "returns", **EASY, **ONCE}
    return (
        _task(game, "one_line", "one-line functions of those that training has, one attempt", line),
        _task(game, "one_line_unseen", "one-line functions that training never has", line,
              unseen=True),
        _task(game, "easy_unseen", "functions of difficulty 1 to 3, one attempt",
              {**MIDDLE, **ONCE}, unseen=True),
        _task(game, "hard_unseen", "functions of difficulty 4 and 5, one attempt",
              {**HARD, **ONCE}, unseen=True),
        _task(game, "all", "functions of all difficulties, of the problems that training has",
              ONCE),
        _task(game, "repair_unseen",
              "functions of all difficulties; a test that fails is told, twice at most",
              {"max_cycles": 3}, unseen=True),
    )  # fmt: skip


def _tool_use() -> Sequence[Scenario]:
    game = "tool_use_v0"
    return (
        _task(game, "two_tools", "a number in a file and a sum, of problems that training has",
              TWO_TOOLS),
        _task(game, "two_tools_unseen", "the same, of problems that training never has",
              TWO_TOOLS, unseen=True),
        _task(game, "one_tool_unseen", "questions that one tool answers",
              {"families": ("calculate", "read", "look up")}, unseen=True),
        _task(game, "nested_unseen", "what one tool says is what the next one is asked for",
              {"families": "follow"}, unseen=True),
        _task(game, "all", "all families without Python, of problems that training has", {}),
        _task(game, "all_unseen", "all families without Python", {}, unseen=True),
    )  # fmt: skip


def _debates() -> Sequence[Scenario]:
    # Quality: in a zero-sum game that one plays against oneself there is nothing to be earned.
    debate, quality = partial(_task, "debate_v0", focal=("pro_0", "con_0")), {"scoring": "quality"}
    return (
        debate("both_sides", "both sides are focal, on motions that training has",
               {**quality, "debate_rounds": 2}),
        debate("both_sides_unseen", "both sides are focal, on new motions",
               {**quality, "debate_rounds": 2}, unseen=True),
        debate("one_round_unseen", "both sides speak once, and hear nothing before",
               {**quality, "debate_rounds": 1}, unseen=True),
        debate("four_rounds_unseen", "both sides speak four times", {**quality, "debate_rounds": 4},
               unseen=True),
    )  # fmt: skip


SCENARIOS: Mapping[str, Scenario] = MappingProxyType(
    {
        found.name: found
        for part in (
            _coordination, _teams, _stages, _bandits, _mazes, _markets, _bargains,
            _mathematics, _programming, _tool_use, _debates,
        )
        for found in part()
    }
)  # fmt: skip
"""Name -> scenario. A new one is added here and found by its name everywhere."""
