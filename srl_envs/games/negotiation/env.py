"""Negotiation: bargaining over several issues with private points and a deadline.

The rules stand in bargaining.py, the words in view.py. A deal pays each agent its
utility times discount ** (rounds played before it); without one every agent gets its reservation,
when somebody walks away or at the deadline, which is `max_cycles`. All other rounds pay nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from srl_envs.games import base, rendering
from srl_envs.games.cheap_talk import TalkingGame
from srl_envs.games.negotiation import bargaining
from srl_envs.games.negotiation import rendering as negotiation_rendering
from srl_envs.games.negotiation.bargaining import (
    ISSUES,
    POINTS,
    Bargain,
    NegotiationRules,
    assessment,
)
from srl_envs.games.negotiation.view import OBSERVATION_FIELDS, NegotiationView, field_sizes
from srl_envs.validation import parallel_form

__all__ = ["OBSERVATION_FIELDS", "SocialNegotiation", "parallel_env"]


class SocialNegotiation(TalkingGame):
    """The environment.

    Agents agent_0, agent_1, ...; actions as srl_envs.games.negotiation.bargaining lists them, in
    words `text_view.answers(agent)`. An action that is illegal now counts as a pass, and
    `infos[agent]["illegal"]` says so. `reset(options={"points": ..., "reservations": ...,
    "first": ...})` sets an episode up by hand: points per agent, issue and option, points per
    agent, and the agent that moves first, where offers alternate. The last infos hold `outcome`
    ("agreement", "walked away" or "deadline"), `agreement` (issue -> option, or None), and what
    bargaining.assessment reports, `utilities` and `individually_rational` per agent.
    """

    metadata: ClassVar[dict[str, Any]] = base.metadata_of("social_negotiation_v0")
    scenario = "negotiation"

    def __init__(
        self,
        *,
        num_agents: int = 2,
        issues: Mapping[str, Sequence[str]] = ISSUES,
        offers: str = "alternating",
        discount: float = 0.95,
        conflict: float = 0.75,
        messages: bool = False,
        keyword_rewards: bool = False,
        max_cycles: int = 10,
        obs_mode: str = "vector",
        render_mode: str | None = None,
    ) -> None:
        self.rules = NegotiationRules(
            num_agents, bargaining.checked_issues(issues), offers, discount, conflict
        )
        actions = np.arange(self.rules.num_actions)
        self._may_move = (actions != bargaining.ACCEPT).astype(np.int8)
        self._may_accept = np.ones_like(self._may_move)
        self._pass_only = (actions == bargaining.PASS).astype(np.int8)
        self._flags = [self._one_hot(deal) for deal in self.rules.deals]
        low = dict.fromkeys(OBSERVATION_FIELDS, 0.0) | {"settled": -1.0}
        sizes = field_sizes(self.rules).items()
        super().__init__(
            [f"agent_{index}" for index in range(self.rules.num_agents)],
            ["pass"] * self.rules.num_actions,  # their names are the view's
            [low[name] for name, size in sizes for _ in range(size)],
            [1.0 for _, size in sizes for _ in range(size)],
            messages=messages,
            keyword_rewards=keyword_rewards,
            reward_ceiling=1.0,
            max_cycles=max_cycles,
            obs_mode=obs_mode,
            render_mode=render_mode,
        )

    def make_view(self) -> NegotiationView:
        """The view for episodes of `self.max_cycles` rounds."""
        return NegotiationView(
            self.rules, tuple(self.possible_agents), self.max_cycles, self.messages
        )

    def phase(self) -> str:
        """Whose move is next; nobody's where all move at once, or once it is over."""
        mover = self.bargain.mover
        over = self.finished or self.played >= self.rounds
        return "" if over or mover < 0 else f"{self.possible_agents[mover]} moves"

    def masks(self) -> Sequence[np.ndarray]:
        """The int8 mask of each agent's legal actions now."""
        return self._legal_now

    def first_rows(self, options: Mapping[str, Any]) -> Sequence[base.Row]:
        """Begin a negotiation; the agents' first observations."""
        rules = self.rules
        points, reservations = rules.draw(self.np_random)
        if "points" in options:
            points = rules.checked_points(options["points"])
        if "reservations" in options:
            reservations = rules.checked_reservations(options["reservations"])
        bargain = Bargain(rules, points, reservations, self.np_random)
        if "first" in options:
            bargain.mover = rules.checked_first(options["first"])
        self.bargain = bargain
        self._own = [
            (reservation / POINTS, *(entry / POINTS for issue in own for entry in issue))
            for own, reservation in zip(points, reservations, strict=True)
        ]
        self._acted: list[int | None] = [None] * rules.num_agents
        return self._look()

    def play_round(self, chosen: Sequence[int], over: bool) -> base.Played:
        """One round: observations, rewards and infos in agent order."""
        bargain = self.bargain
        illegal = bargain.play(chosen)
        infos: list[dict[str, Any]] = [{"illegal": wrong} for wrong in illegal]
        self._acted = [
            bargaining.PASS if wrong else act for act, wrong in zip(chosen, illegal, strict=True)
        ]
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

    def _one_hot(self, deal: Sequence[int]) -> tuple[int, ...]:
        return tuple(
            int(option == chosen)
            for (_, options), chosen in zip(self.rules.issues, deal, strict=True)
            for option in range(len(options))
        )

    def _look(self) -> Sequence[base.Row]:
        """All agents' observations and, with them, what is legal for each."""
        bargain, size = self.bargain, self.rules.num_agents
        time = self.played / self.rounds
        settled = (bargain.agreed is not None) - bargain.walked_away
        nothing = (0,) * len(self._flags[0])
        flags = [nothing if deal is None else self._flags[deal] for deal in bargain.proposals]
        rows: list[base.Row] = []
        self._legal_now: list[np.ndarray] = []
        for agent in range(size):
            order = [agent, *range(agent), *range(agent + 1, size)]
            may_move = bargain.may_move(agent) and not settled
            worth = [
                0.0 if deal is None else bargain.utilities[deal][agent] / POINTS
                for deal in (bargain.proposals[other] for other in order)
            ]
            rows.append(
                (
                    *(time, may_move, settled, *self._own[agent]),
                    *(flag for other in order for flag in flags[other]),
                    *worth,
                    *(bargain.stands[other] for other in order),
                    *(bargain.consents[other] for other in order),
                )
            )
            if not may_move:
                self._legal_now.append(self._pass_only)
            else:
                accept = bargain.may_accept(agent)
                self._legal_now.append(self._may_accept if accept else self._may_move)
        return rows

    def _scene(self) -> rendering.Scene:
        """The last round: what each agent said, and at the end what it got."""
        return rendering.Scene(
            headline=self.headline(),
            agents=tuple(self.possible_agents),
            choices=tuple(self._acted),
            rewards=tuple(self._shown[1]),
            answers=self.text_view.answers(self.possible_agents[0]),
            ceiling=self.reward_ceiling,
        )

    def drawn_in_pixels(self) -> np.ndarray:
        """The deadline, every agent's points and latest proposal per issue, and what it did."""
        return negotiation_rendering.rgb_array(
            self._scene(), self.bargain, self.played, self.rounds
        )

    def _report(self, infos: Sequence[dict[str, Any]]) -> None:
        bargain, agents = self.bargain, self.possible_agents
        ends = {True: "walked away", False: "deadline"}
        agreed = bargain.agreed
        for info in infos:
            found = assessment(bargain.utilities, bargain.reservations, agreed)
            for name in ("utilities", "individually_rational"):
                found[name] = dict(zip(agents, found[name], strict=True))
            info["outcome"] = ends[bargain.walked_away] if agreed is None else "agreement"
            info["agreement"] = None if agreed is None else self.rules.named(agreed)
            info.update(found)


parallel_env = parallel_form(SocialNegotiation)
