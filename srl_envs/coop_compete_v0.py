"""Cooperate or compete: everyone chooses at once, and each choice pays when others choose it too.

A symmetric coordination game of n seats, played for `max_cycles` rounds. Two variants:

- "population": a cooperator earns base + cooperation_weight * L * r, a competitor
  base + competition_weight * (1 - L) * (1 - r), where L is the cooperation level and r the share
  of the *other* seats that cooperate.
- "pair": the two-player benchmark game; the same when both agree, and base - 0.1 each when not.

base = base_scale * max(0.1, 1 - difficulty). Rewards are base and bonus plus normal noise, never
below zero. All numbers are per seat and round, unitless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np
from pettingzoo import AECEnv
from pettingzoo.utils import parallel_to_aec

from srl_envs import base
from srl_envs.checks import Step, number_between, one_of, parallel_form, true_or_false
from srl_envs.payoffs import VARIANTS, CoopCompeteRules
from srl_envs.text import BINARY_ANSWERS, HOW_TO_ANSWER, BinaryChoice

HIDDEN = -1.0  # stands in the observation for a parameter that is not shown

OBSERVATION_FIELDS = (
    "first_round",  # 1 before anyone has chosen, else 0
    "own_cooperated",  # 1 if this seat cooperated last round, else 0
    "others_cooperated",  # share of the other seats that cooperated last round; 0.5 before
    "last_reward",
    "time",  # rounds played / max_cycles
    "cooperation_level",  # L, or -1 where observe_parameters is off
    "difficulty",  # or -1 where observe_parameters is off
)
_, OWN, OTHERS, REWARD, TIME, _, _ = range(len(OBSERVATION_FIELDS))

AHEAD = 512  # observations that are made at a time; whoever keeps one keeps all these: 14 KB
OUTCOMES_KEPT = 4096  # joint choices: all of twelve seats; more seats seldom repeat one

Outcome = tuple[float, list[tuple[str, float, float, float]]]
"""The share of all seats that cooperate; each seat, its choice, what it sees, its payoff."""


class CoopCompete(base.SimultaneousGame):
    """The environment.

    Seats agent_0, agent_1, ...; action 1 cooperates, 0 competes; every action is always legal.
    Observations: OBSERVATION_FIELDS, per seat. `infos[agent]["cooperation_ratio"]` is the share of
    all seats that cooperated. `num_agents` is 4 where not given, 2 in the pair variant. With
    `observe_parameters=False` the cooperation level and the difficulty stay hidden from the seats.

    So little happens in a round that making its arrays and looking its numbers up is most of the
    work. Here arrays are made for many rounds at once, each is handed out once, and what follows
    from a joint choice is kept.
    """

    metadata: ClassVar[dict[str, Any]] = {
        "name": "coop_compete_v0",
        "render_modes": list(base.RENDER_MODES),
        "render_fps": 1,
        "is_parallelizable": True,
    }

    def __init__(
        self,
        *,
        num_agents: int | None = None,
        cooperation_level: float = 0.6,
        difficulty: float = 0.3,
        variant: str = "population",
        base_scale: float = 1.0,
        noise_std: float = 0.05,
        cooperation_weight: float = 0.25,
        competition_weight: float = 0.25,
        observe_parameters: bool = True,
        max_cycles: int = 1000,
        obs_mode: str = "vector",
        render_mode: str | None = None,
    ) -> None:
        one_of("variant", variant, VARIANTS)
        if num_agents is None:
            num_agents = 2 if variant == "pair" else 4
        self.rules = CoopCompeteRules(
            num_agents,
            cooperation_level,
            difficulty,
            variant,
            base_scale,
            cooperation_weight,
            competition_weight,
        )
        self.observe_parameters = true_or_false("observe_parameters", observe_parameters)
        self._payoffs = self.rules.payoffs()
        num_agents = self.rules.num_agents
        others = num_agents - 1
        # By number of cooperators: what a competitor and a cooperator see of the others.
        self._shares = [
            (total / others, (total - 1) / others) if others else (0.5, 0.5)
            for total in range(num_agents + 1)
        ]
        self._parameters = (
            (self.rules.cooperation_level, self.rules.difficulty)
            if self.observe_parameters
            else (HIDDEN, HIDDEN)
        )
        noise = number_between("noise_std", noise_std, 0.0)
        ceiling = self.rules.greatest() + base.NOISE_LIMIT * noise
        super().__init__(
            [f"agent_{seat}" for seat in range(num_agents)],
            BINARY_ANSWERS,
            low=(0.0, 0.0, 0.0, 0.0, 0.0, HIDDEN, HIDDEN),
            high=(1.0, 1.0, 1.0, ceiling, 1.0, 1.0, 1.0),
            reward_ceiling=ceiling,
            noise_std=noise,
            max_cycles=max_cycles,
            obs_mode=obs_mode,
            render_mode=render_mode,
        )
        self._picked = _picker(self.possible_agents)
        self._outcomes: dict[bytes, Outcome] = {}
        self._plain = False
        self._fresh: Iterator[tuple[np.ndarray, np.ndarray, float]] = iter(())
        self._begun = self._prepared = 0  # rounds played when arrays were made, and until when
        self._noise = [0.0] * num_agents

    def baselines(self) -> dict[str, float]:
        """Mean reward per seat and step, noise left out: 'uniform' play and the joint 'optimum'."""
        return {"uniform": self.rules.uniform_value(), "optimum": self.rules.optimum()}

    def make_view(self) -> CoopCompeteView:
        """The view for episodes of `self.max_cycles` rounds."""
        return CoopCompeteView(
            self.rules.num_agents, self.rules.variant, self.max_cycles, self.observe_parameters
        )

    def first_rows(self, options: Mapping[str, Any]) -> Sequence[base.Row]:
        """The seats' first observations; no options are known."""
        return [(1.0, 0.0, 0.5, 0.0, 0.0, *self._parameters)] * len(self.possible_agents)

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Start an episode; see SimultaneousGame."""
        unplayed = (self._prepared - self.played) * len(self.possible_agents)
        begun = super().reset(seed, options)
        if seed is None:
            self.give_back(unplayed)
        self._plain = self.obs_mode == "vector" and self.render_mode is None
        self._prepare([0.0] * len(self.possible_agents))
        return begun

    def step(self, actions: Mapping[str, Any]) -> Step:
        """Play one round; see SimultaneousGame."""
        agents = self.agents
        try:
            chosen = bytes(self._picked(actions))
            outcome = self._outcomes.get(chosen) or self._outcome(chosen)
            understood = len(actions) == len(agents)
        except (LookupError, TypeError, ValueError, OverflowError):
            understood = False
        if not understood:
            return self._unplayed(actions)
        self.played = played = self.played + 1
        self._last = ratio, seats = outcome
        observations: dict[str, Any] = {}
        rewards: dict[str, float] = {}
        infos: dict[str, dict[str, Any]] = {}
        for (agent, action, share, payoff), (row, mask, noise) in zip(seats, self._fresh):  # noqa: B905
            reward = payoff + noise
            if reward < 0.0:
                reward = 0.0
            row[OWN] = action
            row[OTHERS] = share
            row[REWARD] = reward
            observations[agent] = row
            rewards[agent] = reward
            infos[agent] = {"cooperation_ratio": ratio, "action_mask": mask}
        truncations = going_on = self._going_on
        if played == self._prepared:
            if played >= self.rounds:
                self.agents = []
                truncations = dict.fromkeys(agents, True)
            self._prepare(self._noise_now())
        if not self._plain:
            if self.render_mode is not None:
                self._picture_of(list(chosen), list(rewards.values()))
            observations = self._observations(observations)
        return observations, rewards, going_on.copy(), truncations.copy(), infos

    def _outcome(self, chosen: bytes) -> Outcome:
        """What follows from a joint choice; raises ValueError where there is no such choice."""
        if not self._legal(chosen):
            raise ValueError
        total = sum(chosen)
        payoff, share = self._payoffs[total], self._shares[total]
        seats = [
            (agent, float(action), share[action], payoff[action])
            for agent, action in zip(self.possible_agents, chosen, strict=True)
        ]
        outcome = (total / len(chosen), seats)
        if 2 ** len(chosen) <= OUTCOMES_KEPT:
            self._outcomes[chosen] = outcome
        return outcome

    def _prepare(self, noise_now: list[float]) -> None:
        """Make what the coming rounds hand out: vectors and masks, and the noise that goes in."""
        seats, begun = len(self.possible_agents), self.played
        rounds = min(max(1, AHEAD // seats), self.rounds - begun)
        rows = np.empty((rounds, seats, len(OBSERVATION_FIELDS)), base.FLOAT)
        rows[...] = (0.0, 0.0, 0.0, 0.0, 0.0, *self._parameters)
        rows[..., TIME] = (np.arange(begun + 1, begun + rounds + 1) / self.rounds)[:, None]
        masks = np.ones((rounds * seats, len(self._answers)), np.int8)
        noise = self.noise(rounds * seats)
        self._fresh = zip(rows.reshape(-1, len(OBSERVATION_FIELDS)), masks, noise, strict=True)
        self._begun, self._prepared = begun, begun + rounds
        self._noise = noise_now + noise  # from the round before on

    def _noise_now(self) -> list[float]:
        """The noise of the last round."""
        seats = len(self.possible_agents)
        start = (self.played - self._begun) * seats
        return self._noise[start : start + seats]

    def __getstate__(self) -> dict[str, Any]:
        # What is made ahead is made again: views of one block would come back as arrays apart.
        return self.__dict__ | {"_fresh": None, "_outcomes": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        noise_now = self._noise_now()
        self.give_back((self._prepared - self.played) * len(self.possible_agents))
        self._prepare(noise_now)

    def state(self) -> np.ndarray:
        """All seats' observation vectors one after another (float32), for centralised critics."""
        if self.played:
            time = self.played / self.rounds
            self._rows = [
                (0.0, action, share, max(0.0, payoff + noise), time, *self._parameters)
                for (_, action, share, payoff), noise in zip(
                    self._last[1], self._noise_now(), strict=True
                )
            ]
        return super().state()


def _picker(agents: Sequence[str]) -> Callable[[Mapping[str, Any]], Sequence[Any]]:
    """Takes the actions of these seats, in this order."""
    if len(agents) == 1:
        return partial(_only, agents[0])  # itemgetter would give the action itself
    return itemgetter(*agents)


def _only(agent: str, actions: Mapping[str, Any]) -> Sequence[Any]:
    return (actions[agent],)


@dataclass(frozen=True)
class CoopCompeteView(BinaryChoice):
    """How the game reads and is answered."""

    players: int
    variant: str
    rounds: int
    shows_parameters: bool = True
    default_action: int = 0
    parse_penalty: float = 0.1

    def rules(self, agent: str) -> str:
        """The game, the seat's role and how to answer."""
        if self.players == 1:
            return (
                f"You are {agent}, the only player. Each round you choose to cooperate or to "
                f"compete; alone, both earn the same. {HOW_TO_ANSWER}"
            )
        if self.variant == "pair":
            pays = "You both earn more when you choose the same, and both lose when you differ."
        else:
            pays = (
                "Cooperating earns more when others cooperate; "
                "competing earns more when others compete."
            )
        if self.shows_parameters:
            pays += " A high cooperation level favours cooperating."
        return (
            f"You are {agent}, one of {self.players} players. Each round all players choose at "
            f"the same time to cooperate or to compete. {pays} Earn as much as you can. "
            f"{HOW_TO_ANSWER}"
        )

    def describe(self, agent: str, observation: Any) -> str:
        """The seat's situation, from its observation vector (or the dict that holds it)."""
        first, own, others, reward, time, level, difficulty = base.vector_of(observation).tolist()
        played = round(time * self.rounds)
        parts = [f"Round {min(played + 1, self.rounds)} of {self.rounds}."]
        if first:
            parts.append("Nobody has chosen yet.")
        else:
            parts.append(f"You chose to {BINARY_ANSWERS[int(own)]} and earned {reward:.2f}.")
            company = self.players - 1
            if company:
                parts.append(f"Others cooperating: {round(others * company)} of {company}.")
        if level >= 0.0:
            parts.append(f"Cooperation level {level:.2f}, difficulty {difficulty:.2f}.")
        return " ".join(parts)


parallel_env = parallel_form(CoopCompete)


def raw_env(**parameters: Any) -> AECEnv:
    """The AEC form without PettingZoo's bounds check; takes what CoopCompete takes."""
    return parallel_to_aec(parallel_env(**parameters))


def env(**parameters: Any) -> AECEnv:
    """The AEC form with PettingZoo's usual wrappers; takes what CoopCompete takes."""
    return base.aec(parallel_env(**parameters))
