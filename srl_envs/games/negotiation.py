"""Negotiation: bargaining over several issues with private points and a deadline.

The rules of proposals are in bargaining.py. With t = the number of rounds played before the deal,
the reward of an agent is

    utility of the deal * discount ** t    in the round of a deal
    its reservation                        if an agent walks away, or in the last round
    0                                      in all other rounds
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np

from srl_envs.games import bargaining, base
from srl_envs.games.bargaining import ISSUES, POINTS, Bargain, NegotiationRules, assessment
from srl_envs.games.base import WIDTH, VectorLayout, numbers_in
from srl_envs.games.cheap_talk import MESSAGE_RULE, TalkingGame, message_lines
from srl_envs.text import LISTED, ParseFailure, any_of, cost_of_unread, parse_statement, round_of

ZERO = bytes(WIDTH)
"""The number 0 in `VectorLayout.packed`."""
OBSERVATION_FIELDS = (
    "time",  # rounds played / max_cycles
    "may_move",  # 1 if the agent has other legal actions than to pass
    "settled",  # 1 after a deal, -1 after an agent walked away, else 0
    "reservation",  # utility without a deal
    # In the following fields, agents are in agent order, but with the observing agent first.
    "utility",  # per issue and option: utility that the option adds to a deal
    "proposal",  # per agent, issue and option: 1 if the agent's latest proposal has the option
    "worth",  # per agent: utility of its latest proposal for the observing agent, or 0
    "stands",  # per agent: 1 if its latest proposal can be accepted
    "consents",  # per agent: 1 if it made or accepted the open proposal
)


def field_sizes(rules: NegotiationRules) -> dict[str, int]:
    """Return field -> its number of entries in a vector, in the order of OBSERVATION_FIELDS."""
    options = sum(len(options) for _, options in rules.issues)
    sizes = dict.fromkeys(OBSERVATION_FIELDS, 1)
    sizes |= dict.fromkeys(("worth", "stands", "consents"), rules.num_agents)
    return sizes | {"utility": options, "proposal": rules.num_agents * options}


def _terms(named: Mapping[str, str]) -> str:
    return " ".join(f"{issue}={option}" for issue, option in named.items())


@lru_cache(maxsize=1024)
def _situation(packed: bytes, rounds: int) -> str:
    time, may_move, settled = numbers_in(packed)
    if settled:
        state = "There is a deal." if settled > 0 else "Somebody walked away."
    else:
        state = "Your move." if may_move else "Not your move, so you can only pass."
    return f"{round_of(time, rounds)}. {state}"


@lru_cache(maxsize=1024)
def _points(issues: tuple[tuple[str, tuple[str, ...]], ...], packed: bytes) -> str:
    [reservation], start, listed = numbers_in(packed[:WIDTH]), WIDTH, []
    for issue, options in issues:
        end = start + WIDTH * len(options)
        listed.append(_points_of_issue(issue, options, packed[start:end]))
        start = end
    return f"Your points: {'; '.join(listed)}. No deal: {100 * reservation:.0f}."


@lru_cache(maxsize=1024)
def _points_of_issue(issue: str, options: tuple[str, ...], packed: bytes) -> str:
    utility = numbers_in(packed)
    points = (f"{option} {100 * part:.0f}" for option, part in zip(options, utility, strict=True))
    return f"{issue} {', '.join(points)}"


@lru_cache(maxsize=1024)
def _worth(packed: bytes) -> str:
    [utility] = numbers_in(packed)
    return f"{100 * utility:.0f} points for you"


@dataclass(frozen=True)
class NegotiationView:
    """Text view of SocialNegotiation."""

    bargain: NegotiationRules
    agents: tuple[str, ...]
    rounds: int
    messages: bool = False
    default_action: int = bargaining.PASS
    parse_penalty: float = 0.1

    @cached_property
    def _layout(self) -> VectorLayout:
        sizes = field_sizes(self.bargain)
        joint = {"situation": 3, "points": 1 + sizes["utility"]}  # until "settled"; "utility"
        return VectorLayout(joint | {name: sizes[name] for name in OBSERVATION_FIELDS[5:]})

    @cached_property
    def _names(self) -> dict[str, tuple[str, ...]]:
        return {own: ("You", *(a for a in self.agents if a != own)) for own in self.agents}

    @cached_property
    def _terms_of_flags(self) -> dict[bytes, str]:
        named = self.bargain.named
        return {own.tobytes(): _terms(named(deal)) for deal, own in enumerate(self.bargain.flags)}

    @cached_property
    def _actions(self) -> dict[str, int]:
        deals = range(len(self.bargain.deals))
        proposals = (f"propose {_terms(self.bargain.named(deal))}" for deal in deals)
        answers = ("pass", "accept", "walk away", *proposals)
        return {answer: action for action, answer in enumerate(answers)}

    def rules(self, agent: str) -> str:
        return self._rules[agent]

    @cached_property
    def _rules(self) -> dict[str, str]:
        issues = [issue for issue, _ in self.bargain.issues]
        about = f"{', '.join(issues[:-1])} and {issues[-1]}" if issues[1:] else issues[0]
        rules = {}
        for agent, (_, *others) in self._names.items():
            partners = f"{', '.join(others[:-1])} and {others[-1]}" if others[1:] else others[0]
            rules[agent] = f"You are {agent} and settle {about} with {partners}. {self._procedure}"
        return rules

    @cached_property
    def _procedure(self) -> str:
        if self.bargain.offers == "alternating":
            procedure = "You take turns to propose, or to accept the proposal that stands; "
            procedure += "a deal needs all."
        else:
            procedure = (
                "Each round both propose, or accept the other's last proposal; equal proposals "
                "make a deal too. If both accept at once, the lot decides whose proposal it is."
            )
        answers = tuple(self._actions)
        shown = answers if len(answers) <= LISTED else (answers[-1], *answers[:3])
        discount = self.bargain.discount
        shrinking = f", times {discount:g} for each round played before" if discount < 1 else ""
        cost = cost_of_unread(self.parse_penalty)
        talk = f" {MESSAGE_RULE}" if self.messages else ""
        return (
            f"{procedure} A deal pays you its points / 100{shrinking}; without one by the last "
            "round, or if anyone walks away, you get what no deal is worth to you. Write alone on "
            f"the last line {any_of(shown)}.{cost}{talk}"
        )

    def describe(self, agent: str, observation: Any) -> str:
        situation, points, flags, worths, stands, consents = self._layout.packed(observation)
        parts = [_situation(situation, self.rounds), _points(self.bargain.issues, points)]
        names, start, place = self._names[agent], 0, 0
        size = len(flags) // len(names)
        for name in names:
            terms = self._terms_of_flags.get(flags[start : start + size])
            end = place + WIDTH
            if terms is not None:
                earlier = "" if stands[place:end] != ZERO else "earlier "
                parts.append(f"{name} {earlier}proposed {terms} ({_worth(worths[place:end])}).")
            start, place = start + size, end
        if len(names) > 2:
            marks = zip(names, numbers_in(consents), numbers_in(stands), strict=True)
            parts += [f"{name} agreed." for name, agrees, made in marks if agrees and not made]
        return " ".join(parts) + (message_lines(observation) if self.messages else "")

    def answers(self, agent: str) -> tuple[str, ...]:
        return tuple(self._actions)

    def parse(self, agent: str, answer: str) -> int | ParseFailure:
        if isinstance(answer, str) and answer in self._actions:
            return self._actions[answer]  # the usual answer

        def action_of(statement: str) -> int | ParseFailure | None:
            plain = " ".join(statement.split())
            if plain not in self._actions and plain.startswith("propose "):
                return self._proposed(plain)
            return self._actions.get(plain)

        return parse_statement(answer, action_of)

    def _proposed(self, plain: str) -> int | ParseFailure:
        """Return the action of "propose issue=option ..." in any order, or a ParseFailure."""
        issues, chosen = dict(self.bargain.issues), dict[str, str]()
        plain = plain.replace(" =", "=").replace("= ", "=").replace(",", " ")
        for term in plain.split()[1:]:
            issue, equals, option = term.partition("=")
            if issue not in issues or not equals:
                known = ", ".join(f"{name}=..." for name in issues)
                return ParseFailure(f"a proposal names {known} and no more")
            if option not in issues[issue]:
                return ParseFailure(f"{issue} is {any_of(issues[issue])}")
            if issue in chosen:
                return ParseFailure(f"{issue} stood twice in the proposal")
            chosen[issue] = option
        for issue in issues:
            if issue not in chosen:
                return ParseFailure(f"{issue} was missing from the proposal")
        terms = _terms({issue: chosen[issue] for issue in issues})
        return self._actions[f"propose {terms}"]


class SocialNegotiation(TalkingGame):
    """PettingZoo ParallelEnv of the negotiation.

    Agents are agent_0, agent_1, ... Actions are 0 pass, 1 accept, 2 walk away, then one proposal
    per deal. Without `talk`, with A agents and O options of all issues, observations are float32
    vectors of shape (4 + O + A * (O + 3),), laid out as OBSERVATION_FIELDS. An action that is
    illegal counts as a pass, and `infos[agent]["illegal"]` is then True. In the last round, each
    agent's info contains `outcome` ("agreement", "walked away" or "deadline"), `agreement` (issue
    -> option, or None) and the measures of bargaining.assessment, with `utilities` and
    `individually_rational` by agent. Invalid arguments raise EnvConfigError.

    Args:
        num_agents: Number of agents, from 2 to 6; 2 for simultaneous offers.
        issues: Issue -> its options, at least two; see bargaining.checked_issues.
        offers: "alternating" or "simultaneous"; see bargaining.py.
        discount: Factor of a deal's utility per round before the deal, from 0 to 1.
        conflict: Probability, per issue, that an agent's preferences reverse those of the agent
            before it.
        messages: Show the text above the last line of an answer to all others. Needs obs_mode
            "llm".
        talk: Number of words that an action can add, from 0 to 8; see TalkingGame.
        max_cycles: Number of rounds until the deadline, at least 1.
        obs_mode: "vector", "dict" or "llm"; see SimultaneousGame.
        render_mode: "human", "ansi", "rgb_array" or None.
    """

    metadata: ClassVar[dict[str, Any]] = base.metadata_of("social_negotiation_v0")
    scripted: ClassVar[str | None] = "conceder"

    def __init__(
        self,
        *,
        num_agents: int = 2,
        issues: Mapping[str, Sequence[str]] = ISSUES,
        offers: str = "alternating",
        discount: float = 0.95,
        conflict: float = 0.75,
        messages: bool = False,
        talk: int = 0,
        max_cycles: int = 10,
        obs_mode: str = "vector",
        render_mode: str | None = None,
    ) -> None:
        self.rules = NegotiationRules(
            num_agents, bargaining.checked_issues(issues), offers, discount, conflict
        )
        # Masks of an agent that may only pass, may not accept, and may do everything.
        self._mask_of = np.ones((3, self.rules.num_actions), np.int8)
        self._mask_of[0, np.arange(self.rules.num_actions) != bargaining.PASS] = 0
        self._mask_of[1, bargaining.ACCEPT] = 0
        self._masks: dict[tuple[int, ...], Sequence[np.ndarray]] = {}
        """`_legal_now` -> masks of all agents."""
        layout = VectorLayout(field_sizes(self.rules))
        self._starts = [layout.places[name].start for name in ("proposal", "worth", "stands")]
        # Fields from "proposal" on, before the first one.
        self._unseen = array("f", bytes(WIDTH * (layout.length - self._starts[0])))
        agents = range(self.rules.num_agents)
        # Functions that return an agent's entry of a list, then those of the others.
        self._in_order = [itemgetter(a, *agents[:a], *agents[a + 1 :]) for a in agents]
        low = dict.fromkeys(OBSERVATION_FIELDS, 0.0) | {"settled": -1.0}
        sizes = field_sizes(self.rules).items()
        super().__init__(
            [f"agent_{index}" for index in range(self.rules.num_agents)],
            range(self.rules.num_actions),
            [low[name] for name, size in sizes for _ in range(size)],
            [1.0 for _, size in sizes for _ in range(size)],
            messages=messages,
            talk=talk,
            max_cycles=max_cycles,
            obs_mode=obs_mode,
            render_mode=render_mode,
        )
        if offers == "simultaneous":  # Otherwise, no constant of all agents makes a deal.
            self.constant_actions = range(bargaining.FIRST_PROPOSAL, self.rules.num_actions)

    def make_view(self) -> NegotiationView:
        return NegotiationView(
            self.rules, tuple(self.possible_agents), self.max_cycles, self.messages
        )

    def masks(self) -> Sequence[np.ndarray]:
        if self._legal_now not in self._masks:
            legal = self._mask_of[list(self._legal_now)]
            self._masks[self._legal_now] = self.with_any_word(list(legal))
        return self._masks[self._legal_now]

    def first_rows(self, options: Mapping[str, Any]) -> Sequence[base.Row]:
        rules = self.rules
        points, reservations = rules.draw(self.np_random)
        self.bargain = Bargain(rules, points, reservations, self.np_random)
        self._rows_now = [
            array("f", [0, 0, 0, *[part / POINTS for part in (least, *chain(*own))]]) + self._unseen
            for own, least in zip(points, reservations, strict=True)
        ]
        return self._look()

    def play_round(self, chosen: Sequence[int], over: bool) -> base.Played:
        bargain = self.bargain
        illegal = bargain.play(chosen)
        infos: list[dict[str, Any]] = [{"illegal": wrong} for wrong in illegal]
        rewards = [0.0] * len(chosen)
        self.finished = bargain.agreed is not None or bargain.walked_away
        if bargain.agreed is not None:
            shrunk = self.rules.discount ** (self.played - 1)
            rewards = [shrunk * worth / POINTS for worth in bargain.utilities[bargain.agreed]]
        elif self.finished or over:
            rewards = [reservation / POINTS for reservation in bargain.reservations]
        if self.finished or over:
            self._report(infos)
        return self._look(), rewards, infos

    def best_return(self) -> float:
        """Return the best mean return of all agents, by the earliest possible deal or by none."""
        rules, bargain = self.rules, self.bargain
        # With alternating offers, all other agents must accept, one per round.
        waits = rules.num_agents - 1 if bargain.alternating else 0
        best = max(map(sum, bargain.utilities)) if waits < self.rounds else 0
        worth = max(rules.discount**waits * best, sum(bargain.reservations))
        return worth / POINTS / rules.num_agents

    def _look(self) -> Sequence[base.Row]:
        bargain, time = self.bargain, self.played / self.rounds
        settled = (bargain.agreed is not None) - bargain.walked_away
        flags_of, (proposal, worth, marks) = self.rules.flags, self._starts
        legal = []
        for agent, (row, in_order) in enumerate(zip(self._rows_now, self._in_order, strict=True)):
            may_move = bargain.may_move(agent) and not settled
            row[0], row[1], row[2] = time, may_move, settled
            for place, deal in enumerate(in_order(bargain.proposals)):
                if deal is not None:
                    flags = flags_of[deal]
                    start = proposal + place * len(flags)
                    row[start : start + len(flags)] = flags
                    row[worth + place] = bargain.utilities[deal][agent] / POINTS
            row[marks:] = array("f", (*in_order(bargain.stands), *in_order(bargain.consents)))
            legal.append(may_move + (may_move and bargain.may_accept(agent)))
        self._legal_now = tuple(legal)
        return self._rows_now

    def _report(self, infos: Sequence[dict[str, Any]]) -> None:
        bargain, agreed = self.bargain, self.bargain.agreed
        measures = assessment(bargain.utilities, bargain.reservations, agreed)
        for info in infos:
            found = measures.copy()
            for name in ("utilities", "individually_rational"):
                found[name] = dict(zip(self.possible_agents, found[name], strict=True))
            info["outcome"] = "walked away" if bargain.walked_away else "deadline"
            info["agreement"] = None
            if agreed is not None:
                info["outcome"], info["agreement"] = "agreement", self.rules.named(agreed)
            info.update(found)


parallel_env = SocialNegotiation
