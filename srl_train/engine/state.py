"""State of a run: players, learners and everything that changes from round to round."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from srl_agents.episode import Episode
from srl_agents.evaluation.episode_stats import cooperation_rate
from srl_agents.policy import Policy
from srl_agents.rollout import SpeaksFirst
from srl_agents.rollout.matchmaking import Matchmaking
from srl_envs.text.view import TextView
from srl_train.config.run import RunConfig
from srl_train.credit import AgentRoles, CreditScheme
from srl_train.data.sample_buffer import SampleBuffer
from srl_train.engine.offline.progress import StageProgress
from srl_train.learners.learner import Learner
from srl_train.modes import Mode, ModeState
from srl_train.opponent_pool import OpponentPool
from srl_train.trajectory import Game, shaped_game
from srl_train.updates import UpdateStrategy

if TYPE_CHECKING:
    from srl_train.engine.engine import Engine
    from srl_train.engine.records.playing import GameUnderWay
    from srl_train.loading import Players

log = logging.getLogger(__name__)


@dataclass
class ModelTotals:
    """What a model has done so far, for summaries."""

    episodes: int = 0
    """Episodes times agents."""
    turns: int = 0
    reward: float = 0.0
    """Sum of raw rewards."""
    wins: int = 0
    """Episodes times agents in which no agent's raw return was higher, and one was lower."""
    cooperations: int = 0
    choices: int = 0
    """Turns of a game that has cooperate and compete."""


@dataclass
class Run:
    """Built by `assemble.assemble`, changed by `rounds.run_round`."""

    config: RunConfig
    engine: Engine
    """Carries out rollouts, updates and publication."""
    make_env: Callable[[], Any]
    view: TextView
    teams: Mapping[str, str] | None
    matchmaking: Matchmaking
    """Who plays which agents, group by group of games."""
    seats: Mapping[str, str]
    """Agent -> who plays it in the first game of an evaluation, in the environment's order; in all
    games where nothing is drawn or rotated."""
    policies: Mapping[str, Policy]
    """Agent -> policy, by `seats`."""
    seated: Callable[[Mapping[str, str]], Mapping[str, Policy]]
    """Agent -> who plays it, to agent -> policy."""
    pools: Mapping[str, OpponentPool]
    """Past versions of the models, which sit where the configuration says."""
    learners: Mapping[str, Learner]
    """Model -> learner, for the models that train."""
    buffers: Mapping[str, SampleBuffer]
    strategy: UpdateStrategy
    strategy_state: Any
    mode: Mode
    mode_state: ModeState
    credit: CreditScheme | None
    """Credit scheme; None leaves advantages to the learners."""
    credit_state: Mapping[str, float]
    roles: Mapping[str, str]
    """Agent -> its role; see srl_train.scores."""
    speaks_first: SpeaksFirst
    players: Players
    """Everyone with weights: modules, tokenizers and what samples from them."""
    baselines: Mapping[str, float]
    """Known values of the game, such as its optimum: mean raw reward per agent and turn."""
    versions: dict[str, int] = field(default_factory=dict)
    """Model -> updates that changed its weights."""
    totals: dict[str, ModelTotals] = field(default_factory=dict)
    frozen_totals: dict[str, ModelTotals] = field(default_factory=dict)
    """The same of the frozen models."""
    stages: StageProgress = field(default_factory=StageProgress)
    """What is learned from data before the first round."""
    next_round: int = 0
    seconds: float = 0.0
    """Time spent in rounds, over all resumptions."""
    warnings: dict[str, str] = field(default_factory=dict)
    """Cause -> what was warned of, see `warn_once`."""
    playing: GameUnderWay | None = None
    """Where a game under way is recorded for those who watch."""
    evaluations: dict[str, Any] = field(default_factory=dict)
    """When ("before", "after_sft", "after_dpo", "after") -> what was measured then."""

    def warn_once(self, cause: str, told: str) -> list[str]:
        """Log a warning and keep it, unless one of its cause is kept; returns the new ones."""
        if cause in self.warnings:
            return []
        self.warnings[cause] = told
        log.warning("%s", told)
        return [told]

    @property
    def position(self) -> tuple[int, int]:
        """(rounds, passes over data before them) done: what a checkpoint is taken of."""
        return self.next_round, self.stages.passes

    @property
    def completed(self) -> bool:
        """Whether all stages and rounds are done."""
        return not self.stages.left(self.config) and self.next_round >= self.config.rounds

    def agents_of(self, model: str) -> tuple[str, ...]:
        """The agents that a model may hold, in the environment's order; which ones it does in an
        episode, the episode says."""
        return self.matchmaking.agents_of(model)

    @property
    def agents_that_learn(self) -> frozenset[str]:
        """The agents that models in training may hold."""
        return frozenset(agent for model in self.learners for agent in self.agents_of(model))

    def policies_of(self, seats: Mapping[str, str]) -> Mapping[str, Policy]:
        """Agent -> policy, where agents are played so."""
        return self.policies if seats == self.seats else self.seated(seats)

    def game(self, episode: Episode) -> Game:
        """Every agent's trajectory, with the rewards that the mode shapes."""
        return shaped_game(
            episode,
            tuple(self.seats),
            lambda raw: self.mode.shape(raw, self.teams, self.mode_state),
            self.view.parse_penalty,
        )

    def agent_roles(self) -> AgentRoles:
        """Return the teams and leaders among the agents, for credit assignment."""
        return AgentRoles(tuple(self.seats), self.teams, self.speaks_first)

    def draw_opponents(self, rng: np.random.Generator) -> list[dict[str, str]]:
        """Of each of a round's groups, pool -> the snapshot that plays its agents, by name."""
        drawn = {n: own.draw(rng) for n, own in self.pools.items() if not own.draws_each_group}
        return [
            {n: drawn[n] if n in drawn else own.draw(rng) for n, own in self.pools.items()}
            for _ in range(self.config.rollout.groups_per_round)
        ]

    def seat_opponents(self, opponents: Mapping[str, str]) -> None:
        """Load these snapshots into their pools."""
        for pool, snapshot in opponents.items():
            self.pools[pool].seat(snapshot)

    def pools_grow_at(self, rounds: int) -> bool:
        """Whether snapshots of the models are due after so many rounds."""
        return any(pool.grows_at(rounds) for pool in self.pools.values())

    def seat_first_opponents(self) -> None:
        """Load every pool's first snapshot."""
        for pool in self.pools.values():
            pool.seat_first()

    def seatings_between(self, model: str, pool: str) -> tuple[dict[str, str], dict[str, str]]:
        """Agent -> who plays it, where the model holds all agents of models that learn and the
        pool its own; and where each holds the other's. All else is as in evaluations."""
        learn = dict.fromkeys(self.agents_that_learn, model)
        held = {agent: who for agent, who in self.seats.items() if who == pool}
        swapped = dict.fromkeys(learn, pool) | dict.fromkeys(held, model)
        return dict(self.seats) | learn, dict(self.seats) | swapped

    def end_round(self, episodes: Sequence[Episode]) -> None:
        """Move the mode's balance, the pools' win rates, the ratings and the totals by what was
        played."""
        for pool in self.pools.values():
            pool.record_results(episodes, tuple(self.learners))
        self.matchmaking.record(episodes, self.teams)
        steps = [step for episode in episodes for turn in episode.turns for step in turn]
        rate = cooperation_rate(steps)
        self.mode_state = self.mode.update(self.mode_state, rate)
        for episode in episodes:
            returns = episode.returns()
            best, worst = max(returns.values()), min(returns.values())
            for agent, who in episode.seats.items():
                total = self.totals.get(who) or self.frozen_totals.get(who)
                if total is None:
                    continue
                own = episode.steps_of(agent)
                choices = [s.decision.action for s in own if "cooperation_ratio" in s.info]
                total.episodes += 1
                total.turns += len(own)
                total.reward += returns[agent]
                total.wins += returns[agent] == best > worst
                total.choices += len(choices)
                total.cooperations += sum(map(int, choices))
