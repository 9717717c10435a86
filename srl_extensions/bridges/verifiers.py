"""Games as a verifiers environment: the model plays one agent, partners play the others.

vf-eval srl-games --env.taskset.environment team_battle_v0 ...    (compat/srl_games has the name)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any

from srl_agents.errors import BackendError, PolicyError, RolloutError
from srl_agents.llm.backends.chat_backend import ChatAnswer, ChatRequest, Usage
from srl_agents.llm.chat_policy import ChatPolicy
from srl_agents.llm.sampling import Sampling
from srl_agents.rollout import play_many_async
from srl_envs.loading import needed_by
from srl_extensions.bridges.focal_game import FocalGame, paid, rows

with needed_by("games as a verifiers environment"):
    import verifiers.v1 as vf
    from verifiers.v1.harnesses.null import NullHarnessConfig


class GameTasksetConfig(vf.TasksetConfig):
    """Game, partners and seeds."""

    environment: str = "coop_compete_pair_v0"
    """Name in the catalogue, or 'module:function'."""
    agent: str = "agent_0"
    partners: dict[str, str] = {"agent_1": "tit_for_tat"}  # noqa: RUF012  pydantic copies it
    """Every other agent -> scripted policy, 'module:Class', or model behind an API."""
    options: dict[str, Any] = {}  # noqa: RUF012  likewise
    games: int = 100
    """Number of tasks, with one seed each."""
    first_seed: int = 0
    evaluation: bool = False
    """Allow held-out partners and levels."""


class GameData(vf.TaskData):
    """Task with the rules as system prompt."""

    seed: int


class GameTask(vf.Task[GameData, vf.State, vf.TaskConfig]):
    """One game from one seed."""


class GameTaskset(vf.Taskset[GameTask, GameTasksetConfig]):
    """Tasks of one game, one per seed."""

    @property
    def game(self) -> FocalGame:
        """Game of all tasks."""
        config = self.config
        return FocalGame(config.environment, config.agent, config.partners, config.options)

    def load(self) -> Iterator[GameTask]:
        """Yield the tasks; raise PolicyError and EnvConfigError for an invalid or held-out game."""
        first = self.config.first_seed
        seeds = range(first, first + self.config.games)
        made = rows([self.game], seeds, evaluation=self.config.evaluation)
        for seed, row in zip(seeds, made, strict=True):
            rules, _ = row["prompt"]
            name = f"{self.config.environment}#{seed}"
            # No prompt: the game opens the conversation once the agent is to move.
            data = GameData(name=name, system_prompt=rules["content"].strip(), seed=seed)
            yield GameTask(data, self.config.task)


class GameEnvConfig(vf.EnvConfig):
    """Configuration of one player."""

    player: vf.AgentConfig = vf.AgentConfig(
        harness=NullHarnessConfig(id="null"), runtime=vf.SubprocessConfig()
    )
    """The trained or evaluated model, which runs no code."""


class GameEnv(vf.Env[GameEnvConfig]):
    """Game of one focal agent among partners.

    Records the reward `episode_return` and the metric `unreadable_answers`, a share. A run that
    ends early is paid for its part.
    """

    taskset: GameTaskset

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        """Play the game of a task."""
        game: FocalGame = self.taskset.game  # the run's own, whatever a task's data say
        make = partial(game.make, trusted=True)
        with closing(make()) as env:
            view = env.unwrapped.text_view
            policies = game.partner_policies(env, trusted=True)
            alone = [a for a in env.possible_agents if a not in policies and a != game.agent]
        if alone:
            raise PolicyError(f"nobody plays {', '.join(alone)}: name them in `partners`")
        async with agents.player.interaction(task) as interaction:
            model = _Player(interaction)
            policies[game.agent] = ChatPolicy(model, view)
            [episode] = await play_many_async(make, policies, [task.data.seed])
        if episode.failure is not None and not model.over:
            raise RolloutError(f"the game of {task.data.name} failed: {episode.failure}")
        reward, unread = paid(episode, game.agent, view.parse_penalty)
        interaction.trace.record_reward("episode_return", reward)
        asked = len(list(episode.asked_of(game.agent)))
        interaction.trace.record_metric("unreadable_answers", unread / max(asked, 1))


class _Player:
    """The run's model as a ChatModel: each request is the next turn of its interaction."""

    name = "player"
    takes_seed = False

    def __init__(self, interaction: vf.Interaction) -> None:
        self._interaction = interaction
        self.usage = Usage()  # the run counts its own
        self.over = False
        """The run ended before the game did."""

    def check(self, sampling: Sampling) -> None:
        """How it is sampled is the run's."""

    async def answer(self, request: ChatRequest) -> ChatAnswer:
        """The model's reply; raises BackendError where the run is over."""
        segment = await self._interaction.turn(request.messages[-1]["content"])
        if segment.terminated:
            self.over = True
            raise BackendError(f"the run ended: {self._interaction.trace.stop_condition}")
        return ChatAnswer(segment.last_reply, "stop", ended=True, model=self.name)


__all__ = ["GameEnv", "GameEnvConfig", "GameTaskset", "GameTasksetConfig"]
