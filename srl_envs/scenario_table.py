"""All scenarios. Add one here: the tests, `srl eval` and docs/scenarios.md find it by its name.

Those of tasks are in srl_envs/task_scenarios.py.
Names are `<environment>.<what is special>`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from srl_envs import task_scenarios
from srl_envs.scenarios import Scenario

ROUNDS = 16  # of the games of cooperating and competing
SMALL = {"width": 5, "height": 5, "max_cycles": 40}  # mazes of the documented simple size
LARGE = {"width": 9, "height": 9, "max_cycles": 81}
UNSEEN = {"split": "test"}


def _agents(*numbers: int) -> tuple[str, ...]:
    return tuple(f"agent_{number}" for number in numbers)


def _against(partner: str, *numbers: int) -> Mapping[str, str]:
    return dict.fromkeys(_agents(*numbers), partner)


def _coordination() -> Sequence[Scenario]:
    game, rounds = "coop_compete_v0", {"num_agents": 4, "max_cycles": ROUNDS}
    pair, short = "coop_compete_pair_v0", {"max_cycles": ROUNDS}
    return (
        Scenario(
            f"{game}.one_among_cooperators", game,
            "one newcomer among three that always cooperate",
            _agents(0), _against("always_cooperate", 1, 2, 3), rounds,
        ),
        Scenario(
            f"{game}.one_among_competitors", game,
            "one newcomer among three that always compete: what paid elsewhere does not pay here",
            _agents(0), _against("always_compete", 1, 2, 3), rounds,
        ),
        Scenario(
            f"{game}.three_and_tit_for_tat", game,
            "three focal seats settle what a fourth will follow",
            _agents(0, 1, 2), _against("tit_for_tat", 3), rounds,
        ),
        Scenario(
            f"{game}.two_and_two_grim_triggers", game,
            "two focal seats and two that never forgive the majority",
            _agents(0, 1), _against("grim_trigger", 2, 3), rounds,
            held_out_partners=("grim_trigger",),
        ),
        Scenario(
            f"{game}.three_and_an_alternator", game,
            "three focal seats with one that changes every round",
            _agents(0, 1, 2), _against("alternator", 3), rounds,
            held_out_partners=("alternator",),
        ),
        Scenario(
            f"{pair}.always_cooperate", pair, "a partner that always cooperates",
            _agents(0), _against("always_cooperate", 1), short,
        ),
        Scenario(
            f"{pair}.always_compete", pair, "a partner that always competes: agree with it",
            _agents(0), _against("always_compete", 1), short,
        ),
        Scenario(
            f"{pair}.tit_for_tat", pair, "a partner that repeats what the focal seat did",
            _agents(0), _against("tit_for_tat", 1), short,
        ),
        Scenario(
            f"{pair}.pavlov", pair, "a partner that cooperates after agreement",
            _agents(0), _against("pavlov", 1), short, held_out_partners=("pavlov",),
        ),
        Scenario(
            f"{pair}.alternator", pair, "a partner that alternates: agreeing takes foresight",
            _agents(0), _against("alternator", 1), short, held_out_partners=("alternator",),
        ),
    )  # fmt: skip


def _teams() -> Sequence[Scenario]:
    game, options = "team_battle_v0", {"team_size": 3, "max_cycles": ROUNDS}
    red, blue = (tuple(f"{team}_{seat}" for seat in range(3)) for team in ("red", "blue"))
    return (
        Scenario(
            f"{game}.against_cooperators", game, "a focal team against one that always cooperates",
            red, dict.fromkeys(blue, "always_cooperate"), options,
        ),
        Scenario(
            f"{game}.against_tit_for_tat", game, "a focal team against one that pays back",
            red, dict.fromkeys(blue, "tit_for_tat"), options,
        ),
        Scenario(
            f"{game}.joining_a_team", game,
            "one newcomer in a team of cooperators, against random play",
            red[:1],
            dict.fromkeys(red[1:], "always_cooperate") | dict.fromkeys(blue, "uniform"), options,
        ),
        Scenario(
            f"{game}.against_generous", game, "a focal team against one that mostly pays back",
            red, dict.fromkeys(blue, "generous_tit_for_tat"), options,
            held_out_partners=("generous_tit_for_tat",),
        ),
        Scenario(
            f"{game}.two_teams_and_two_grim", game,
            "two focal seats in each team, each beside one that never forgives the rivals",
            (*red[:2], *blue[:2]), {red[2]: "grim_trigger", blue[2]: "grim_trigger"}, options,
            held_out_partners=("grim_trigger",),
        ),
    )  # fmt: skip


def _stages() -> Sequence[Scenario]:
    game, options = "staged_v0", {"num_agents": 4, "max_cycles": ROUNDS}
    return (
        Scenario(
            f"{game}.adversary_among_cooperators", game,
            "the focal seat is the adversary, among cooperators",
            _agents(0), _against("always_cooperate", 1, 2, 3), options,
        ),
        Scenario(
            f"{game}.with_a_preying_adversary", game,
            "three focal seats, and an adversary that always competes",
            _agents(1, 2, 3), _against("always_compete", 0), options,
        ),
        Scenario(
            f"{game}.two_and_two_followers", game,
            "two focal seats that are no adversaries; the others do what the majority did",
            _agents(1, 2), _against("tit_for_tat", 0, 3), options,
        ),
        Scenario(
            f"{game}.with_a_changing_adversary", game,
            "three focal seats, and an adversary that mostly cooperates",
            _agents(1, 2, 3), _against("mostly_cooperate", 0), options,
            held_out_partners=("mostly_cooperate",),
        ),
        Scenario(
            f"{game}.two_and_two_pavlovs", game,
            "two focal seats that are no adversaries; the others cooperate after agreement",
            _agents(1, 2), _against("pavlov", 0, 3), options, held_out_partners=("pavlov",),
        ),
    )  # fmt: skip


def _bandits() -> Sequence[Scenario]:
    game = "bandit_v0"
    length = {"max_cycles": 40, "switch_pull": 10}
    better_left = {"arm0_prob": 0.8, "arm1_prob_start": 0.6, "arm1_prob_after": 0.3}
    spoilt_right = {"arm0_prob": 0.5, "arm1_prob_start": 0.9, "arm1_prob_after": 0.1}
    crowd = {**length, "num_agents": 4}
    return (
        Scenario(
            f"{game}.documented_arms", game, "the documented chances, in a shorter game",
            _agents(0), options=length,
        ),
        Scenario(
            f"{game}.among_learners", game, "one focal seat sees three learners pull",
            _agents(0), _against("thompson_sampling", 1, 2, 3), crowd,
        ),
        Scenario(
            f"{game}.three_and_a_shifter", game,
            "three focal seats, and one that shifts after a loss",
            _agents(0, 1, 2), _against("win_stay_lose_shift", 3), crowd,
        ),
        Scenario(
            f"{game}.left_is_better", game,
            "held-out chances: the left arm is the better one throughout",
            _agents(0), options=length | better_left, held_out_options=tuple(better_left),
        ),
        Scenario(
            f"{game}.right_spoils_unseen", game,
            "held-out chances: the right arm turns from the best to the worst, and nothing tells",
            _agents(0), options={**length, **spoilt_right, "observe_switch": False},
            held_out_options=tuple(spoilt_right),
        ),
    )  # fmt: skip


def _mazes() -> Sequence[Scenario]:
    found: list[Scenario] = []

    def add(
        game: str, special: str, description: str, partner: str | None, sizes: Mapping[str, Any],
        *, unseen: bool = False, held_out_partner: bool = False,
    ) -> None:  # fmt: skip
        found.append(
            Scenario(
                f"{game}.{special}", game, description, _agents(0),
                {} if partner is None else _against(partner, 1),
                {**sizes, **(UNSEEN if unseen else {})},
                held_out_partners=(partner,) if partner and held_out_partner else (),
                held_out_options=tuple(UNSEEN) if unseen else (),
            )
        )  # fmt: skip

    game = "maze_v0"
    add(game, "small", "new small mazes, of those that training has", None, SMALL)
    add(game, "large", "new large mazes, of those that training has", None, LARGE)
    add(game, "small_unseen", "small mazes that training never has", None, SMALL, unseen=True)
    add(game, "large_unseen", "large mazes that training never has", None, LARGE, unseen=True)
    add(
        game, "loops_unseen", "mazes with loops that training never has", None,
        {**LARGE, "loop_share": 0.3}, unseen=True,
    )  # fmt: skip
    for game, aim in (("maze_race_v0", "a race against"), ("maze_meet_v0", "meeting")):
        add(game, "random_walker", f"{aim} one that walks at random", "random_walker", SMALL)
        add(game, "greedy_walker", f"{aim} one that heads for its goal", "greedy_walker", SMALL)
        add(
            game, "explorer_unseen", f"{aim} one that remembers, in mazes training never has",
            "explorer", SMALL, unseen=True,
        )  # fmt: skip
        add(
            game, "wall_follower", f"{aim} one that keeps to the wall", "wall_follower", SMALL,
            held_out_partner=True,
        )  # fmt: skip
        add(
            game, "wall_follower_unseen",
            f"{aim} one that keeps to the wall, in mazes training never has", "wall_follower",
            SMALL, unseen=True, held_out_partner=True,
        )  # fmt: skip
    game = "maze_own_v0"  # seats do not hinder each other here: what differs are the mazes
    add(game, "small", "small mazes, beside one that walks at random", "random_walker", SMALL)
    add(game, "large", "large mazes, beside one that remembers", "explorer", LARGE)
    add(
        game, "small_unseen", "small mazes training never has, beside one that remembers",
        "explorer", SMALL, unseen=True,
    )  # fmt: skip
    add(
        game, "loops_unseen", "mazes with loops that training never has, beside one that remembers",
        "explorer", {**LARGE, "loop_share": 0.3}, unseen=True,
    )  # fmt: skip
    add(
        game, "wall_follower", "large mazes, beside one that keeps to the wall", "wall_follower",
        LARGE, held_out_partner=True,
    )  # fmt: skip
    return found


def _markets() -> Sequence[Scenario]:
    game = "social_trading_v0"
    options = {"num_agents": 4, "max_cycles": 24}
    return (
        Scenario(
            f"{game}.one_among_honest", game, "one newcomer among honest traders",
            _agents(0), _against("truthful_trader", 1, 2, 3), options,
        ),
        Scenario(
            f"{game}.three_and_a_defaulter", game,
            "three focal traders and one that never delivers",
            _agents(0, 1, 2), _against("defaulting_trader", 3), options,
        ),
        Scenario(
            f"{game}.binding", game, "one newcomer among honest traders whose agreements bind",
            _agents(0), _against("truthful_trader", 1, 2, 3), {**options, "agreements": "binding"},
        ),
        Scenario(
            f"{game}.whom_to_trust", game, "one newcomer, one honest trader and two that default",
            _agents(0),
            {"agent_1": "truthful_trader", **_against("defaulting_trader", 2, 3)}, options,
        ),
        Scenario(
            f"{game}.hard_bargainers", game, "one newcomer among traders that ask for the most",
            _agents(0), _against("hard_bargainer", 1, 2, 3), options,
            held_out_partners=("hard_bargainer",),
        ),
        Scenario(
            f"{game}.trust_betrayed", game,
            "three focal traders and one that keeps its word until late",
            _agents(0, 1, 2), _against("late_defaulter", 3), options,
            held_out_partners=("late_defaulter",),
        ),
    )  # fmt: skip


def _bargains() -> Sequence[Scenario]:
    game = "social_negotiation_v0"
    three = {"num_agents": 3, "max_cycles": 15}
    return (
        Scenario(
            f"{game}.conceder", game, "a partner that gives way early",
            _agents(0), _against("conceder", 1),
        ),
        Scenario(
            f"{game}.reciprocator", game, "a partner that gives way as far as the focal seat does",
            _agents(0), _against("reciprocator", 1),
        ),
        Scenario(
            f"{game}.at_the_same_time", game, "both propose at once; the partner gives way early",
            _agents(0), _against("conceder", 1), {"offers": "simultaneous"},
        ),
        Scenario(
            f"{game}.two_and_a_conceder", game, "two focal seats and one that gives way early",
            _agents(0, 1), _against("conceder", 2), three,
        ),
        Scenario(
            f"{game}.boulware", game, "a partner that gives way only at the deadline",
            _agents(0), _against("boulware", 1), held_out_partners=("boulware",),
        ),
        Scenario(
            f"{game}.stubborn", game, "a partner that asks for its favourite deal to the end",
            _agents(0), _against("stubborn", 1), held_out_partners=("stubborn",),
        ),
        Scenario(
            f"{game}.between_hard_fronts", game, "one focal seat with two that give way only late",
            _agents(0), _against("boulware", 1, 2), three, held_out_partners=("boulware",),
        ),
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
