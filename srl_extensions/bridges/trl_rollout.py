"""Rollouts for a plain single-model GRPOTrainer through its `rollout_func`.

    trainer = GRPOTrainer(
        model=..., processing_class=..., args=..., train_dataset=rows,
        reward_funcs=episode_return_reward,
        rollout_func=make_rollout_func(lambda: make("coop_compete_v0", max_cycles=8)),
    )

Each row of a batch contains the tokens of one agent in one episode, exactly as sampled, with the
environment's text in between. The prompts of the dataset are ignored. `rollout_func` is
experimental in TRL; this module was tested with TRL 1.16.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from math import ceil
from typing import Any

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
"""Function from (prompts, trainer) to columns with one entry per prompt."""
_IGNORED_OPTIONS = {"min_p": None, "repetition_penalty": 1.0, "use_vllm": False}
"""Sampling options of TRL without effect here, with their neutral values."""
_COLUMNS = ("prompt_ids", "completion_ids", "logprobs", "env_mask", "episode_return")


def make_rollout_func(
    make_env: Callable[[], Any],
    *,
    others: Mapping[str, Policy] | None = None,
    max_new_tokens: int = 16,
    seed: int = 0,
) -> RolloutFunc:
    """Return a `rollout_func` for GRPOTrainer.

    Answers are sampled from the trainer's current model with its temperature, top_p and top_k. The
    rows of a group contain the same agent in different episodes with the same reset seed. The
    groups of a batch take the model's agents in turn, in random order, and share episodes. All
    randomness comes from `seed`, the trainer's global step and the number of the call in that step,
    so a resumed training plays the same episodes.

    Args:
        make_env: Constructor of the environment.
        others: Agent -> policy, for the agents that the model does not play.
        max_new_tokens: Maximum number of tokens in an answer.
        seed: Seed of all randomness.

    Returns:
        A function that returns prompt_ids, completion_ids, logprobs, env_mask (1 on the model's
        tokens) and episode_return (sum of rewards minus the text view's parse penalties). It raises
        ConfigError for settings that do not fit, and RolloutError for a failed episode.
    """
    partners = dict(others or {})
    calls: Counter[int] = Counter()

    def rollout(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        size = trainer.num_generations if trainer.model.training else trainer.num_generations_eval
        _check(trainer, len(prompts), size)
        with closing(make_env()) as env:
            view = env.unwrapped.text_view
            agents = [agent for agent in env.possible_agents if agent not in partners]
            if not agents or not set(partners) <= set(env.possible_agents):
                raise ConfigError(
                    f"others must name agents of {', '.join(env.possible_agents)} and leave at "
                    f"least one, got {', '.join(partners)}"
                )
        step = trainer.state.global_step
        rng = generator(seed, "trl_rollout", step, calls[step])
        calls[step] += 1
        trained = rng.permutation(agents).tolist()
        groups = len(prompts) // size
        env_seeds, policy_seeds = of_games(rng, ceil(groups / len(trained)) * size, size)
        backend = HuggingFaceBackend(trainer.model, trainer.processing_class)
        backend.weights_version = step
        sampling = Sampling(
            temperature=trainer.args.temperature,
            top_p=trainer.args.top_p,
            top_k=trainer.args.top_k,
            max_new_tokens=max_new_tokens,
        )
        model = TextPolicy(backend, view, sampling=sampling)
        policies = {**dict.fromkeys(agents, model), **partners}
        episodes = play_many(make_env, policies, env_seeds, policy_seeds=policy_seeds)
        columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
        for row in range(len(prompts)):
            group, member = divmod(row, size)
            block, place = divmod(group, len(trained))
            episode, agent = episodes[block * size + member], trained[place]
            if episode.failure is not None:
                raise RolloutError(f"the episode of row {row} failed: {episode.failure}")
            game = shaped_game(episode, (agent,), lambda raw: raw, view.parse_penalty)
            sample = sample_of(game[agent], discount=1.0, round_number=0)
            if sample is None:
                raise RolloutError(f"the episode of row {row} ended before {agent} acted")
            columns["prompt_ids"].append(list(sample.prompt_ids))
            columns["completion_ids"].append(list(sample.completion_ids))
            columns["logprobs"].append(list(sample.logprobs))
            columns["env_mask"].append(list(sample.mask))
            columns["episode_return"].append(sample.episode_return)
        return columns

    return rollout


def episode_return_reward(
    prompts: Sequence[Any],
    completions: Sequence[Any],
    episode_return: Sequence[float],
    **columns: Any,
) -> list[float]:
    """Return each row's episode return, as a reward function for GRPOTrainer.

    Args:
        prompts: Prompts of the dataset, which are ignored.
        completions: Texts of the completions, which are ignored.
        episode_return: Column of the rollout function.
        columns: All other columns, which are ignored.
    """
    return list(episode_return)


def _check(trainer: Any, rows: int, size: int) -> None:
    for name, neutral in _IGNORED_OPTIONS.items():
        if getattr(trainer.args, name) != neutral:
            raise ConfigError(f"{name} must be {neutral!r}, got {getattr(trainer.args, name)!r}")
    if trainer.accelerator.num_processes > 1:
        raise ConfigError(
            f"num_processes must be 1, got {trainer.accelerator.num_processes}: a group must stay "
            "in one process"
        )
    if rows % size:
        raise ConfigError(f"the number of rows must be a multiple of {size} (group), got {rows}")
