"""Text view of negotiation: observation fields, prompts and answers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from srl_envs.games.cheap_talk import MESSAGE_RULE, heard
from srl_envs.games.negotiation import bargaining
from srl_envs.games.negotiation.bargaining import NegotiationRules
from srl_envs.games.observation_layout import VectorLayout
from srl_envs.text import (
    LISTED,
    ParseFailure,
    any_of,
    cost_of_unread,
    parse_statement,
    round_of,
)

OBSERVATION_FIELDS = (
    "time",  # rounds played / max_cycles
    "may_move",  # 1 if the agent may do more than pass
    "settled",  # 1 after a deal, -1 after somebody walked away, else 0
    "reservation",  # utility without a deal
    "utility",  # per issue and option: what it adds to the utility of a deal
    "proposal",  # per agent, oneself first, issue and option: 1 if its latest proposal has it
    "worth",  # per agent, oneself first: the own utility of that proposal, 0 without one
    "stands",  # per agent, oneself first: 1 if that proposal can be accepted
    "consents",  # per agent, oneself first: 1 if it is for the proposal that stands
)


def field_sizes(rules: NegotiationRules) -> dict[str, int]:
    """The length of each of OBSERVATION_FIELDS, in order."""
    options = sum(len(options) for _, options in rules.issues)
    sizes = dict.fromkeys(OBSERVATION_FIELDS, 1)
    sizes |= dict.fromkeys(("worth", "stands", "consents"), rules.num_agents)
    return sizes | {"utility": options, "proposal": rules.num_agents * options}


@lru_cache(maxsize=64)
def sentences(rules: NegotiationRules) -> tuple[str, ...]:
    """The actions in words, in action order."""
    proposals = (_proposal(rules.named(deal)) for deal in range(len(rules.deals)))
    return ("pass", "accept", "walk away", *proposals)


def _proposal(named: dict[str, str]) -> str:
    return "propose " + _terms(named)


def _terms(named: dict[str, str]) -> str:
    return " ".join(f"{issue}={option}" for issue, option in named.items())


@lru_cache(maxsize=64)
def _actions(rules: NegotiationRules) -> dict[str, int]:
    return {said: action for action, said in enumerate(sentences(rules))}


@dataclass(frozen=True)
class NegotiationView:
    """Text view of negotiation."""

    bargain: NegotiationRules
    agents: tuple[str, ...]
    rounds: int
    messages: bool = False
    default_action: int = bargaining.PASS
    parse_penalty: float = 0.1

    def rules(self, agent: str) -> str:
        """The game, the agent's role and how to answer."""
        others = [other for other in self.agents if other != agent]
        company = f"{', '.join(others[:-1])} and {others[-1]}" if others[1:] else others[0]
        issues = [issue for issue, _ in self.bargain.issues]
        about = f"{', '.join(issues[:-1])} and {issues[-1]}" if issues[1:] else issues[0]
        if self.bargain.offers == "alternating":
            course = "You take turns to propose, or to accept the proposal that stands; "
            course += "a deal needs all."
        else:
            course = (
                "Each round both propose, or accept the other's last proposal; equal proposals "
                "make a deal too. If both accept at once, the lot decides whose proposal it is."
            )
        answers = self.answers(agent)
        said = answers if len(answers) <= LISTED else (answers[-1], *answers[:3])
        discount = self.bargain.discount
        shrinking = f", times {discount:g} for each round played before" if discount < 1 else ""
        cost = cost_of_unread(self.parse_penalty)
        talk = f" {MESSAGE_RULE}" if self.messages else ""
        return (
            f"You are {agent} and settle {about} with {company}. {course} A deal pays you its "
            f"points / 100{shrinking}; without one by the last round, or if anyone walks away, you "
            "get what no deal is worth to you. Write alone on the last line "
            f"{any_of(said)}.{cost}{talk}"
        )

    def describe(self, agent: str, observation: Any) -> str:
        """The agent's situation, from its observation vector (or the dict that holds it)."""
        seen = self._fields(observation)
        parts = [f"{round_of(seen['time'][0], self.rounds)}."]
        if seen["settled"][0]:
            parts.append("There is a deal." if seen["settled"][0] > 0 else "Somebody walked away.")
        elif seen["may_move"][0]:
            parts.append("Your move.")
        else:
            parts.append("Not your move, so you can only pass.")
        points = iter(seen["utility"])
        issues = [
            f"{issue} " + ", ".join(f"{option} {100 * next(points):.0f}" for option in options)
            for issue, options in self.bargain.issues
        ]
        parts.append(f"Your points: {'; '.join(issues)}.")
        parts.append(f"No deal: {100 * seen['reservation'][0]:.0f}.")
        parts += self._proposals(agent, seen)
        return " ".join(parts) + heard(observation)

    def answers(self, agent: str) -> tuple[str, ...]:
        """The legal answers, in action order."""
        return sentences(self.bargain)

    def parse(self, agent: str, answer: str) -> int | ParseFailure:
        """The action an answer names. Never raises.

        The issues of a proposal may come in any order, with commas; otherwise as parse_choice. Of
        a proposal that is none, the reason names the part that is wrong.
        """
        actions = _actions(self.bargain)

        def action_of(said: str) -> int | ParseFailure | None:
            plain = " ".join(said.split())
            return self._proposed(plain) if plain.startswith("propose ") else actions.get(plain)

        return parse_statement(answer, action_of)

    def _proposed(self, plain: str) -> int | ParseFailure:
        """The action that proposes so, or which part of it cannot be."""
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
        return _actions(self.bargain)[_proposal({issue: chosen[issue] for issue in issues})]

    def _fields(self, observation: Any) -> dict[str, list[float]]:
        layout = VectorLayout(field_sizes(self.bargain))
        return {name: numbers.tolist() for name, numbers in layout(observation).items()}

    def _proposals(self, agent: str, seen: dict[str, list[float]]) -> list[str]:
        """The latest proposal of every agent that has made one, and who is for it."""
        agents = [agent, *(other for other in self.agents if other != agent)]
        told, flags = [], iter(seen["proposal"])
        for place, other in enumerate(agents):
            named = {
                issue: option
                for issue, options in self.bargain.issues
                for option in options
                if next(flags)
            }
            if not named:
                continue
            name = "You" if place == 0 else other
            earlier = "" if seen["stands"][place] else "earlier "
            worth = f"{100 * seen['worth'][place]:.0f} points for you"
            told.append(f"{name} {earlier}proposed {_terms(named)} ({worth}).")
        if len(agents) > 2:
            told += [
                f"{'You' if place == 0 else other} agreed."
                for place, other in enumerate(agents)
                if seen["consents"][place] and not seen["stands"][place]
            ]
        return told
