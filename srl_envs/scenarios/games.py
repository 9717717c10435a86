"""Scenarios of the games. A new one is added here and found by its name everywhere.

Those of tasks are in srl_envs/scenarios/tasks.py.
Names are `<environment>.<what is special>`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from srl_envs.scenarios import tasks as task_scenarios
from srl_envs.scenarios.scenario import Scenario

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


SCENARIOS: Mapping[str, Scenario] = MappingProxyType(
    {
        found.name: found
        for part in (
            _coordination, _teams, _stages, _bandits, _mazes, _markets, _bargains,
            task_scenarios.all_of_them,
        )
        for found in part()
    }
)  # fmt: skip
"""Name -> scenario."""
