"""State of a training run: policies, learners and everything that changes from round to round."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from srl_agents.episode import Episode
from srl_agents.evaluation.episode_stats import cooperation_rate
from srl_agents.matchmaking import Matchmaking
from srl_agents.rollout import SpeaksFirst
from srl_envs.text import TextView
from srl_train.config.run import RunConfig
from srl_train.credit import Credit
from srl_train.engines import Engine, Players
from srl_train.errors import TrainingError
from srl_train.learners.learner import Learner
from srl_train.modes import Mode, ModeState
from srl_train.opponent_pool import OpponentPool
from srl_train.samples import SampleBuffer, TokenSample, UpdateBatch
from srl_train.trajectory import Game, shaped_game
from srl_train.updates import UpdateStrategy

log = logging.getLogger(__name__)


@dataclass
class ModelTotals:
    """Counters of one model over all groups without a failed episode, for summaries."""

    episodes: int = 0
    """Number of episodes, once per agent of the model."""
    turns: int = 0
    """Number of steps of the model's agents."""
    reward: float = 0.0
    """Sum of raw rewards."""
    wins: int = 0
    """Number of `episodes` in which no raw return was higher and at least one was lower."""
    cooperations: int = 0
    """Number of `choices` in which the agent cooperated."""
    choices: int = 0
    """Number of steps with a choice between cooperate and compete."""

    def add(self, episode: Episode, agent: str, returns: Mapping[str, float]) -> None:
        """Add one agent's results in an episode; `returns` has the raw returns of all agents."""
        steps = episode.steps_of(agent)
        choices = [s.decision.action for s in steps if "cooperation_ratio" in s.info]
        self.episodes += 1
        self.turns += len(steps)
        self.reward += returns[agent]
        self.wins += returns[agent] == max(returns.values()) > min(returns.values())
        self.choices += len(choices)
        self.cooperations += sum(int(choice) % 2 for choice in choices)


@dataclass
class UpdateStats:
    """Statistics of one model's updates in a round."""

    samples: int = 0
    """Number of samples that the model trained on."""
    updates: int = 0
    """Number of updates that changed the weights."""
    steps_left_out: int = 0
    """Optimizer steps that were skipped because their gradient was not finite."""
    staleness: list[int] = field(default_factory=list)
    """Per sample: updates of the model since it sampled."""
    age: list[int] = field(default_factory=list)
    """Per sample: rounds since the episode."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Learner metrics of the latest update."""
    weight_change: float = 0.0
    """L2 norm of the change of the weights in the round."""
    exchanged: int = 0
    """Bytes that the model would have sent and received over a network, if counted."""
    version: int = 0
    """Update count of the model after the round."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Agent to the number of samples dropped as too stale, over all rounds."""

    def add(self, batch: UpdateBatch, metrics: Mapping[str, float]) -> None:
        """Add the samples of an update to `samples`, `staleness` and `age`; replace `metrics`."""
        self.samples += len(batch.samples)
        self.staleness += batch.staleness
        self.age += batch.age
        self.metrics = dict(metrics)


@dataclass(frozen=True)
class PlayedRound:
    """Episodes of a round with trajectories, samples, scores and warnings, before the updates."""

    number: int
    episodes: tuple[Episode, ...]
    """All episodes, including failed ones."""
    kept: Sequence[Episode]
    """Episodes of complete groups."""
    left_out: Sequence[Episode]
    """Failed episodes, and the other episodes of their groups."""
    games: Sequence[Game]
    """Trajectories of the kept episodes."""
    samples: Mapping[str, Sequence[TokenSample]]
    never_asked: Mapping[str, Mapping[str, int]]
    """Model to agent to the number of episodes left out of `samples` (see `samples_for`)."""
    scores: Mapping[str, float]
    """Score of each model that played (srl_train.scores)."""
    mode_state: Mapping[str, float]
    """State of the mode after the round."""
    warned: Sequence[str]
    replayed_steps: int
    """Environment steps of replays for credit."""


@dataclass
class StageProgress:
    """Progress of the offline stages `sft` and `dpo`: finished ones and the current one."""

    reports: list[dict[str, Any]] = field(default_factory=list)
    open: Any = None
    """Current stage, while its learners exist."""
    saved: Mapping[str, Any] | None = None
    """State of an unfinished stage that has no learners: after a load or a stop."""

    @property
    def passes(self) -> int:
        """Number of completed passes over data in all stages."""
        current = self.open.passes if self.open else (self.saved or {}).get("passes", 0)
        finished: int = sum(report["passes"] for report in self.reports)
        return finished + int(current)

    def left(self, config: RunConfig) -> tuple[str, ...]:
        """Return the configured stages ("sft", "dpo") that are not finished, in order."""
        return tuple(config.stages)[len(self.reports) :]

    def state(self) -> dict[str, Any]:
        """Return "reports" of finished stages, and "under_way", the current one's state or None."""
        current = self.open.state() if self.open else self.saved
        return {"reports": list(self.reports), "under_way": current}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore `reports` and `saved` from a result of the method `state`."""
        self.reports, self.saved = list(state["reports"]), state["under_way"]


@dataclass
class Run:
    """State of a run, built by `build.build_run` and changed by each round."""

    config: RunConfig
    engine: Engine
    """Executor of episodes and learners: this process, torchrun processes, or a cluster."""
    make_env: Callable[[], Any]
    view: TextView
    teams: Mapping[str, str] | None
    """Agent to team; None if the environment has no teams."""
    matchmaking: Matchmaking
    """Assignment of models to agents, per group of episodes."""
    learners: Mapping[str, Learner]
    buffers: Mapping[str, SampleBuffer]
    strategy: UpdateStrategy
    strategy_state: Any
    mode: Mode
    mode_state: ModeState
    credit: Credit
    credit_state: Mapping[str, float]
    roles: Mapping[str, str]
    """Role of each agent (srl_train.scores)."""
    speaks_first: SpeaksFirst
    """Leader to the agents that receive its message before they act."""
    players: Players
    """Models that play: backends, modules, opponent pools and the publisher of their weights."""
    baselines: Mapping[str, float]
    """Known values of the environment, such as its optimum: mean raw reward per agent and step."""
    versions: dict[str, int] = field(default_factory=dict)
    """Model to the number of updates that changed its weights."""
    totals: dict[str, ModelTotals] = field(default_factory=dict)
    frozen_totals: dict[str, ModelTotals] = field(default_factory=dict)
    stages: StageProgress = field(default_factory=StageProgress)
    """Progress of the offline stages."""
    next_round: int = 0
    seconds: float = 0.0
    """Time spent in stages and rounds, over all resumptions."""
    warnings: dict[str, str] = field(default_factory=dict)
    """Cause to the warning's text, see `warn_once`."""
    evaluations: dict[str, Any] = field(default_factory=dict)
    """Evaluation results by time: "before", "after_sft", "after_dpo" and "after"."""

    @property
    def seats(self) -> Mapping[str, str]:
        """Agent to player name in the first episode of an evaluation, in the environment's order.

        If matchmaking is "fixed", all episodes have this assignment.
        """
        return self.matchmaking.usual

    @property
    def pools(self) -> Mapping[str, OpponentPool]:
        """Opponent pools by name."""
        return self.players.pools

    @property
    def position(self) -> tuple[int, int]:
        """Numbers of completed (rounds, passes over data of offline stages)."""
        return self.next_round, self.stages.passes

    @property
    def completed(self) -> bool:
        """True if all configured stages and rounds are complete."""
        return not self.stages.left(self.config) and self.next_round >= self.config.rounds

    @property
    def agents_that_learn(self) -> frozenset[str]:
        """Agents that a model in training plays in at least one assignment."""
        return frozenset(agent for model in self.learners for agent in self.agents_of(model))

    def agents_of(self, model: str) -> tuple[str, ...]:
        """Return the agents that the player `model` may play, in the environment's order, or ()."""
        return self.matchmaking.agents_of(model)

    def game(self, episode: Episode) -> Game:
        """Return agent -> trajectory, with rewards shaped by the mode, less parse penalties.

        The mode's present state is used. Raises TrainingError if a raw reward is not finite.
        """
        return shaped_game(
            episode,
            tuple(self.seats),
            lambda raw: self.mode.shape(raw, self.teams, self.mode_state),
            self.view.parse_penalty,
        )

    def publish(self, model: str) -> None:
        """Publish the model's current weights and version to its samplers."""
        weights = self.learners[model].weights()
        self.players.publisher.publish(model, self.versions[model], weights)

    def check_failures(self, episodes: Sequence[Episode]) -> None:
        """Raise TrainingError if more than `max_failed_fraction` of the episodes failed."""
        failures = [episode.failure for episode in episodes if episode.failure is not None]
        if len(failures) / len(episodes) > self.config.max_failed_fraction:
            raise TrainingError(
                f"{len(failures)} of {len(episodes)} episodes failed, max_failed_fraction is "
                f"{self.config.max_failed_fraction:g}; the first: {failures[0]}"
            )

    def warn_once(self, cause: str, text: str) -> list[str]:
        """Log `text` as a warning and return [text]; return [] if `cause` was logged before."""
        if cause in self.warnings:
            return []
        self.warnings[cause] = text
        log.warning("%s", text)
        return [text]

    def end_round(self, episodes: Sequence[Episode]) -> None:
        """Update mode state, pool results and totals. None of the episodes may have failed."""
        for pool in self.pools.values():
            pool.record_results(episodes, tuple(self.learners))
        steps = [step for episode in episodes for turn in episode.turns for step in turn]
        self.mode_state = self.mode.update(self.mode_state, cooperation_rate(steps))
        for episode in episodes:
            returns = episode.returns()
            for agent, name in episode.seats.items():
                totals = self.totals.get(name) or self.frozen_totals.get(name)
                if totals is not None:
                    totals.add(episode, agent, returns)
