"""Builders of those who learn, from a run's configuration: a learner for each model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

from srl_agents.llm.sampling import Sampling
from srl_agents.rollout.matchmaking import Matchmaking
from srl_train.config.learning.learners import PpoConfig
from srl_train.config.learning.trl_options import CLIPPED_LOSSES
from srl_train.config.run import RunConfig
from srl_train.distributed import fsdp, processes
from srl_train.errors import ConfigError
from srl_train.learners.critics import JointState
from srl_train.learners.learner import Learner
from srl_train.learners.trl_grpo import GrpoLearner
from srl_train.learners.trl_options import check_model
from srl_train.learners.trl_ppo import PpoLearner

LARGEST_RATIO = 4.0
"""Where play goes ahead, the largest ratio of new to sampling probability that a token counts with.
PPO's clipping bounds it for good answers only; for bad ones so does two-sided clipping (TRL's
`delta`): dual-clip PPO (Ye et al. 2020, sec. 3.2), with the value of INTELLECT-2's asynchronous
training (Prime Intellect 2025)."""


def build_learners(
    config: RunConfig,
    make_env: Callable[[], Any],
    modules: Mapping[str, Any],
    tokenizers: Mapping[str, Any],
    matchmaking: Matchmaking,
    sampling: Mapping[str, Sampling],
    started: int,
) -> dict[str, Learner]:
    """Model -> its learner, for each of `modules`, in this process, which is one of `started`.

    Raises TrainingError where they are not one in all processes, or do not work together.
    """
    processes.check_equal("the weights to start from", modules)
    if config.parallel == "fsdp" and started > 1:
        for name, module in modules.items():
            fsdp.shard(name, module)
    joint = joint_state(config, make_env)
    learners = {
        name: build_learner(config, name, module, tokenizers[name], matchmaking, sampling, joint)
        for name, module in modules.items()
    }
    found = {name: own.parallelism() for name, own in learners.items()}
    processes.check_started(found, started, config.parallel)
    return learners


def build_learner(
    config: RunConfig,
    name: str,
    model: Any,
    tokenizer: Any,
    matchmaking: Matchmaking,
    sampling: Mapping[str, Sampling],
    joint: JointState | None,
) -> Learner:
    """The learner of one model, which may hold one agent at least.

    `model`: the module to train; `matchmaking`: who holds the agents; `sampling`: each agent's;
    `joint`: what a central critic is shown.
    """
    held = matchmaking.agents_of(name)
    stale = may_be_stale(config, name)
    algorithm = config.algorithm_of(name)
    if config.engine.play_ahead and stale and algorithm.loss in CLIPPED_LOSSES:
        algorithm = algorithm.replaced(trl={"delta": LARGEST_RATIO, **algorithm.trl})
    check_model(algorithm.trl, model)
    _refuse_narrowed(config, name, {agent: sampling[agent] for agent in held})
    settings: dict[str, Any] = {
        "max_divergence": config.backend.divergence_limit,
        "group_size": config.rollout.group_size,
        "temperature": sampling[held[0]].temperature,
        "planned_updates": planned_updates(config, name, matchmaking.mean_held(name)),
        "seed": config.seed,
    }
    if isinstance(algorithm, PpoConfig):
        return PpoLearner(
            name,
            model,
            tokenizer,
            algorithm,
            discount=config.rollout.discount,
            joint=joint,
            **settings,
        )
    return GrpoLearner(name, model, tokenizer, algorithm, **settings)


def planned_updates(config: RunConfig, model: str, held: float) -> int:
    """About how many updates a run's rounds come to, where the model holds so many agents of a game
    on average: one a round in which it plays, or one for each budget of samples."""
    samples = held * config.rollout.episodes
    budget = config.sample_budget.get(model, max(samples, config.rollout.group_size))
    return max(1, int(config.rounds * samples // budget))


def may_be_stale(config: RunConfig, model: str) -> bool:
    """Whether older weights than those that learn may have sampled what the model learns from.

    Without a budget a round's samples are trained on at once, unless play has gone ahead. With one,
    samples may be left for later: even a budget of whole rounds is out of step after a group that
    failed.
    """
    ahead = config.engine.play_ahead and config.updates.max_staleness > 0
    return ahead or model in config.sample_budget


def _refuse_narrowed(config: RunConfig, name: str, sampling: Mapping[str, Sampling]) -> None:
    """Raise ConfigError where log-probabilities as sampled are compared with those of the whole
    vocabulary, and were those of a part of it."""
    reader = None
    if name in config.sample_budget:
        reader = f"updates.sample_budget.{name}"
    elif may_be_stale(config, name):
        reader = "engine.play_ahead"
    elif config.algorithm_of(name).trl.get("off_policy_mask_threshold"):
        reader = "trl.off_policy_mask_threshold"
    elif config.backend.divergence_limit is not None:
        reader = f"backend.name {config.backend.name}"
    for agent, own in sampling.items():
        if reader and (own.top_p < 1 or own.top_k):
            raise ConfigError(
                f"{reader} compares {name} with its log-probabilities as sampled, and in {agent} "
                f"top_p {own.top_p:g} and top_k {own.top_k} sample from a part of the vocabulary: "
                f"give top_p 1 and top_k 0 there, or leave {reader} out"
            )


def joint_state(config: RunConfig, make_env: Callable[[], Any]) -> JointState | None:
    """What the environment shows a central critic; None where no model has one.

    Raises ConfigError for an environment without a state().
    """
    if not config.records_states:
        return None
    with closing(make_env()) as env:
        env.reset(seed=0)
        try:
            size = env.state().size
        except NotImplementedError as error:  # PettingZoo's own answer where there is none
            raise ConfigError(
                f"algorithm.critic: got 'central', and {env.metadata['name']} has no state(): "
                "give it one, or choose shared or separate"
            ) from error
        return JointState(tuple(env.possible_agents), size)
