"""Rollouts for a plain single-model GRPOTrainer, by its `rollout_func`.

    trainer = GRPOTrainer(
        model=..., processing_class=..., args=..., train_dataset=rows,
        reward_funcs=episode_return_reward,
        rollout_func=make_rollout_func(lambda: make("coop_compete_v0", max_cycles=8)),
    )

A row of a batch is one agent's part of one game: everything the model wrote for that agent, token
by token as it was sampled, and between it what it was told. The rows' own prompts are not looked
at. TRL calls `rollout_func` experimental; this was tested with TRL 1.16.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import numpy as np

from srl_agents.errors import RolloutError
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.sampling import Sampling
from srl_agents.llm.text_policy import TextPolicy
from srl_agents.policy import Policy
from srl_agents.rollout import play_many
from srl_agents.seeding import generator, of_games
from srl_train.errors import ConfigError
from srl_train.samples import sample_of
from srl_train.trajectory import shaped_game

RolloutFunc = Callable[[list[Any], Any], dict[str, Any]]
"""(prompts, trainer) -> columns, one entry per prompt."""

# Settings of TRL's sampling that would have to be honoured here and are not.
_NOT_HONOURED = {"min_p": None, "repetition_penalty": 1.0, "use_vllm": False}


def make_rollout_func(
    make_env: Callable[[], Any],
    *,
    others: Mapping[str, Policy] | None = None,
    trained_seat: str | None = None,
    max_new_tokens: int = 16,
    seed: int = 0,
) -> RolloutFunc:
    """What GRPOTrainer is given as `rollout_func`.

    The trainer's model, as it stands at the call, holds every agent that `others` does not name;
    its answers are sampled with the trainer's temperature, top_p and top_k, `max_new_tokens` each
    at most. The rows of a group (num_generations rows in a row) are one agent's parts of different
    games from the same reset seed. That agent is `trained_seat`, one new game per row; without it
    the groups of a batch take the model's agents in turn, in an order drawn anew for each batch,
    and share games: the first group is one agent's part of them, the next another agent's. All
    randomness comes from `seed`, the trainer's global step and the call within that step, so a
    training that was resumed plays what it would have played.

    The returned function gives prompt_ids, completion_ids, logprobs, env_mask (1 where the model
    wrote) and episode_return: the agent's summed rewards less the text view's penalty for each
    unread answer. It raises ConfigError for what does not fit, and RolloutError for a spoilt
    game, which TRL's batch has no room to leave out.
    """
    return _Rollout(make_env, dict(others or {}), trained_seat, max_new_tokens, seed)


def episode_return_reward(
    prompts: Sequence[Any],
    completions: Sequence[Any],
    episode_return: Sequence[float],
    **columns: Any,
) -> list[float]:
    """A reward function for GRPOTrainer: what the environment paid each row's agent."""
    return list(episode_return)


@dataclass
class _Rollout:
    make_env: Callable[[], Any]
    others: dict[str, Policy]
    trained_seat: str | None
    max_new_tokens: int
    seed: int
    backend: HuggingFaceBackend | None = field(default=None, init=False)
    _last_step: int = field(default=-1, init=False)
    _calls: int = field(default=0, init=False)

    def __call__(self, prompts: list[Any], trainer: Any) -> dict[str, Any]:
        size = trainer.num_generations if trainer.model.training else trainer.num_generations_eval
        _check(trainer, len(prompts), size)
        with closing(self.make_env()) as env:
            own, view = self._own_seats(env), env.unwrapped.text_view
        rng = self._generator(trainer.state.global_step)
        seats = [self.trained_seat] if self.trained_seat else rng.permutation(own).tolist()
        groups = len(prompts) // size
        env_seeds, policy_seeds = of_games(rng, ceil(groups / len(seats)) * size, size)
        model = TextPolicy(self._backend_of(trainer), view, sampling=self._sampling(trainer))
        games = play_many(
            self.make_env,
            {**dict.fromkeys(own, model), **self.others},
            env_seeds,
            policy_seeds=policy_seeds,
        )
        columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
        for row in range(len(prompts)):
            group, member = divmod(row, size)
            block, turn = divmod(group, len(seats))
            episode, seat = games[block * size + member], seats[turn]
            if episode.failure is not None:
                raise RolloutError(f"the game of row {row} was spoilt: {episode.failure}")
            game = shaped_game(episode, (seat,), lambda raw: raw, view.parse_penalty)
            sample = sample_of(game[seat], discount=1.0, round_number=0)
            if sample is None:
                raise RolloutError(f"the game of row {row} was over before {seat} had a turn")
            columns["prompt_ids"].append(list(sample.prompt_ids))
            columns["completion_ids"].append(list(sample.completion_ids))
            columns["logprobs"].append(list(sample.logprobs))
            columns["env_mask"].append(list(sample.mask))
            columns["episode_return"].append(sample.episode_return)
        return columns

    def _own_seats(self, env: Any) -> list[str]:
        if getattr(env.unwrapped, "text_view", None) is None:
            raise ConfigError(
                f"{env.metadata['name']} has no text_view: language models cannot play it"
            )
        seats = ", ".join(env.possible_agents)
        for seat in self.others:
            if seat not in env.possible_agents:
                raise ConfigError(f"others names {seat!r}: the agents are {seats}")
        own = [seat for seat in env.possible_agents if seat not in self.others]
        if not own:
            raise ConfigError("others holds every agent: leave one to the model that trains")
        if self.trained_seat is not None and self.trained_seat not in own:
            raise ConfigError(
                f"trained_seat is {self.trained_seat!r}: the model holds {', '.join(own)}"
            )
        return own

    def _generator(self, step: int) -> np.random.Generator:
        self._calls = self._calls + 1 if step == self._last_step else 0
        self._last_step = step
        return generator(self.seed, "trl_rollout", step, self._calls)

    def _backend_of(self, trainer: Any) -> HuggingFaceBackend:
        if self.backend is None or self.backend.model is not trainer.model:
            self.backend = HuggingFaceBackend(trainer.model, trainer.processing_class)
        self.backend.weights_version = trainer.state.global_step
        return self.backend

    def _sampling(self, trainer: Any) -> Sampling:
        return Sampling(
            temperature=trainer.args.temperature,
            top_p=trainer.args.top_p,
            top_k=trainer.args.top_k,
            max_new_tokens=self.max_new_tokens,
        )


_COLUMNS = ("prompt_ids", "completion_ids", "logprobs", "env_mask", "episode_return")


def _check(trainer: Any, rows: int, size: int) -> None:
    for name, neutral in _NOT_HONOURED.items():
        if getattr(trainer.args, name) != neutral:
            raise ConfigError(
                f"{name} is {getattr(trainer.args, name)!r}: games are sampled from the live "
                f"model without it, leave it at {neutral!r}"
            )
    if trainer.accelerator.num_processes > 1:
        raise ConfigError(
            f"there are {trainer.accelerator.num_processes} processes: groups may lie across "
            "them, and games are played in one process only"
        )
    if rows % size:
        raise ConfigError(f"{rows} rows are not groups of {size}: keep groups in one batch")
