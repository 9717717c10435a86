"""verifiers environment: the model plays one agent, partners play the other agents.

    vf-eval srl-games --env.taskset.environment team_battle_v0 ...

compat/srl_games provides the name `srl-games`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any

from srl_agents.errors import BackendError, PolicyError, RolloutError
from srl_agents.evaluation.episode_stats import parse_failures
from srl_agents.llm.backends.chat_backend import ChatAnswer, ChatRequest, Usage
from srl_agents.llm.chat_policy import ChatPolicy
from srl_agents.llm.sampling import Sampling
from srl_agents.rollout import play_many_async
from srl_envs.loading import needed_by
from srl_extensions.bridges.focal_game import FocalGame, rows
from srl_train.trajectory import shaped_game

with needed_by("games as a verifiers environment"):
    import verifiers.v1 as vf
    from verifiers.v1.harnesses.null import NullHarnessConfig


class GameTasksetConfig(vf.TasksetConfig):
    """Configuration of the tasks: environment, agents and seeds."""

    environment: str = "coop_compete_pair_v0"
    """Registered name, or 'module:function'."""
    agent: str = "agent_0"
    """Agent that the model plays."""
    partners: dict[str, str] = {"agent_1": "tit_for_tat"}  # noqa: RUF012  pydantic copies it
    """Every other agent -> scripted policy, 'module:Class', or API model."""
    options: dict[str, Any] = {}  # noqa: RUF012  likewise
    """Keyword arguments of the environment."""
    games: int = 100
    """Number of tasks, one per seed."""
    first_seed: int = 0
    """Seed of the first task; the next ones are larger by 1 each."""
    evaluation: bool = False
    """Allow held-out partners and levels."""


class GameData(vf.TaskData):
    """Data of a task: the rules as system prompt, and the seed."""

    seed: int
    """Seed of the environment's reset."""


class GameTask(vf.Task[GameData, vf.State, vf.TaskConfig]):
    """Task of one episode."""


class GameTaskset(vf.Taskset[GameTask, GameTasksetConfig]):
    """Set of tasks: episodes of one environment with different seeds."""

    @property
    def game(self) -> FocalGame:
        """Environment, agent, partners and options of all tasks, from the configuration."""
        config = self.config
        return FocalGame(config.environment, config.agent, config.partners, config.options)

    def load(self) -> Iterator[GameTask]:
        """Yield one task per seed, in order; raise the errors of `focal_game.rows`."""
        first = self.config.first_seed
        seeds = range(first, first + self.config.games)
        made = rows([self.game], seeds, evaluation=self.config.evaluation)
        for seed, row in zip(seeds, made, strict=True):
            rules, _ = row["prompt"]
            name = f"{self.config.environment}#{seed}"
            # The task has no prompt, because the episode writes the first message.
            data = GameData(name=name, system_prompt=rules["content"].strip(), seed=seed)
            yield GameTask(data, self.config.task)


class GameEnvConfig(vf.EnvConfig):
    """Configuration of the environment with one model."""

    player: vf.AgentConfig = vf.AgentConfig(
        harness=NullHarnessConfig(id="null"), runtime=vf.SubprocessConfig()
    )
    """Trained or evaluated model, which runs no code."""


class GameEnv(vf.Env[GameEnvConfig]):
    """Environment in which the model plays one agent and partners play the other agents.

    Records the reward `episode_return`, the return minus parse penalties, and the metric
    `unreadable_answers`, the share of parse failures; of a run that ends early, its steps so far.
    """

    taskset: GameTaskset

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        """Play a task; record `episode_return` and `unreadable_answers` in the player's trace.

        Raise PolicyError if another agent has no partner, RolloutError if the episode fails, unless
        verifiers ended the run, and errors of `FocalGame.make` and `partner_policies`.
        """
        # The game comes from the taskset, not from the task, because task data may be untrusted.
        game: FocalGame = self.taskset.game
        make = partial(game.make, trusted=True)
        with closing(make()) as env:
            view = env.unwrapped.text_view
            policies = game.partner_policies(env, trusted=True)
            missing = [a for a in env.possible_agents if a not in policies and a != game.agent]
        if missing:
            raise PolicyError(f"partners must have a policy for {', '.join(missing)}")
        async with agents.player.interaction(task) as interaction:
            model = _Player(interaction)
            policies[game.agent] = ChatPolicy(model, view)
            [episode] = await play_many_async(make, policies, [task.data.seed])
        if episode.failure is not None and not model.over:
            raise RolloutError(f"the episode of {task.data.name} failed: {episode.failure}")
        shaped = shaped_game(episode, (game.agent,), lambda raw: raw, view.parse_penalty)
        own = shaped[game.agent]
        interaction.trace.record_reward("episode_return", sum(own.shaped))
        interaction.trace.record_metric("unreadable_answers", parse_failures(own.steps))


class _Player:
    """ChatModel that passes each request to verifiers' interaction as the next turn."""

    name = "player"
    takes_seed = False

    def __init__(self, interaction: vf.Interaction) -> None:
        self._interaction = interaction
        self.usage = Usage()  # verifiers counts its own usage
        self.over = False
        """True if the run ended before the episode."""

    def check(self, sampling: Sampling) -> None:
        """Accept all settings, which have no effect."""

    async def answer(self, request: ChatRequest) -> ChatAnswer:
        segment = await self._interaction.turn(request.messages[-1]["content"])
        if segment.terminated:
            self.over = True
            raise BackendError(f"the run ended: {self._interaction.trace.stop_condition}")
        return ChatAnswer(segment.last_reply, "stop", ended=True, model=self.name)


__all__ = ["GameEnv", "GameEnvConfig", "GameTaskset", "GameTasksetConfig"]
