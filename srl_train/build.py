"""Construction of a run from its configuration, straight down: `build_run`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from srl_agents.llm.chat_format import TEMPLATES
from srl_agents.llm.sampling import Sampling
from srl_agents.policy import Policy
from srl_agents.rollout.matchmaking import Matchmaking
from srl_envs import registry
from srl_envs.tables import Plugin, PluginTable
from srl_envs.wrappers import CustomRewards
from srl_train import fsdp, processes
from srl_train.config import capabilities
from srl_train.config.capabilities import OBJECTS, PROCESSES
from srl_train.config.learning.trl_options import CLIPPED_LOSSES
from srl_train.config.learning.updates import CUSTOM, AsynchronousConfig
from srl_train.config.run import EnvironmentConfig, RunConfig
from srl_train.credit import build_credit
from srl_train.engines import Engine, ProcessesEngine, RolloutSettings
from srl_train.environment import build_env
from srl_train.errors import ConfigError
from srl_train.learners import ALGORITHMS
from srl_train.learners.critics import JointState
from srl_train.learners.learner import Learner
from srl_train.loading import ModelObject, build_backends, with_model_objects
from srl_train.modes import MODES
from srl_train.player_names import base_named
from srl_train.players import build_sampling, matchmaking_of, policies_by_seats, refuse_levels
from srl_train.run import ModelTotals, Players, Run
from srl_train.samples import SampleBuffer
from srl_train.scores import roles_of
from srl_train.updates import STRATEGIES, UpdateStrategy

LARGEST_RATIO = 4.0
"""Largest ratio of new to sampling probability of a token, for samples of older weights. PPO's
clipping bounds the ratio only for positive advantages; two-sided clipping (TRL's `delta`) bounds it
for negative ones: dual-clip PPO (Ye et al. 2020, sec. 3.2), with the value of INTELLECT-2's
asynchronous training (Prime Intellect 2025)."""


class Parts(NamedTuple):
    """Parts of a run that depend on where the run is executed."""

    engine: Engine
    players: Players
    learners: Mapping[str, Learner]


def build_run(
    config: RunConfig,
    make_env: Callable[[], Any] | None = None,
    strategy: UpdateStrategy | None = None,
    server_logs: Path | None = None,
    models: Mapping[str, ModelObject] | None = None,
) -> Run:
    """Build everything that a run needs before its first round.

    Args:
        config: Configuration of the run.
        make_env: Function that makes the environment, in place of `config.environment`.
        strategy: Update strategy in place of `config.updates.strategy`. The configuration of the
            run says that objects were given.
        server_logs: Folder for the logs of model servers; None uses the cache folder.
        models: Model objects to train in place of models that `config.models.base` names.

    Raises:
        ConfigError: If parts do not fit together.
        UpdateError: If the strategy cannot average the models.
    """
    torch.set_num_threads(config.threads)
    started = processes.start(config.models.device, config.threads)
    check_shares(config, started)
    capabilities.check(config, *[PROCESSES] * (started > 1), *[OBJECTS] * bool(models))
    processes.check_same("the configuration", config)
    models = models or {}
    config = resolved(with_model_objects(_with_objects_named(config, make_env, strategy), models))
    make_env = make_env or partial(build_env, config)
    with closing(make_env()) as env:
        _check_environment(config, env)
        credit = build_credit(config, env)
        matchmaking = matchmaking_of(config, env)
        view, teams = env.unwrapped.text_view, getattr(env.unwrapped, "teams", None)
        mode = MODES[config.mode.name](config.mode)
        speaks_first = mode.speaks_first(list(matchmaking.usual), teams)
        settings = RolloutSettings(
            make_env, view, speaks_first, config.rollout.timeout, config.engine.in_flight
        )
        with ExitStack() as on_error:
            parts: Parts = ENGINES.load(config.engine.name)(
                config, settings, matchmaking, server_logs, models
            )
            on_error.callback(parts.players.close)
            learners = parts.learners
            strategy = strategy or STRATEGIES[config.updates.strategy](config.updates)
            strategy.check({name: learner.weights() for name, learner in learners.items()})
            run = Run(
                config=config,
                engine=parts.engine,
                make_env=make_env,
                view=view,
                teams=teams,
                matchmaking=matchmaking,
                learners=learners,
                buffers={
                    name: SampleBuffer(
                        config.rollout.group_size,
                        config.sample_budget.get(name),
                        config.updates.max_staleness,
                    )
                    for name in learners
                },
                strategy=strategy,
                strategy_state=strategy.init(list(learners)),
                mode=mode,
                mode_state=mode.init(),
                credit=credit,
                credit_state={},
                roles=roles_of(env),
                speaks_first=speaks_first,
                players=parts.players,
                baselines=_baselines(env, set(matchmaking.usual.values()) <= learners.keys()),
                versions=dict.fromkeys(learners, 0),
                totals={name: ModelTotals() for name in learners},
                frozen_totals={name: ModelTotals() for name in config.models.frozen_models},
            )
            for name in learners:
                run.publish(name)
            on_error.pop_all()
    return run


def check_shares(config: RunConfig, number: int) -> None:
    """Raise ConfigError unless an update's samples can be divided among `number` processes.

    An update can be as small as one group, if other groups failed.
    """
    for section in config.learned_by.values():
        parts = number * section.minibatches * section.gradient_accumulation_steps
        if number > 1 and config.rollout.group_size % parts:
            raise ConfigError(
                f"rollout.group_size must be a multiple of {parts}, got "
                f"{config.rollout.group_size}: {number} processes x algorithm.minibatches "
                f"({section.minibatches}) x algorithm.gradient_accumulation_steps "
                f"({section.gradient_accumulation_steps})"
            )


def _with_objects_named(
    config: RunConfig, make_env: Callable[[], Any] | None, strategy: UpdateStrategy | None
) -> RunConfig:
    """Name given objects in the configuration, so that nobody resumes the run without them."""
    if make_env is not None:
        with closing(make_env()) as env:
            name = env.metadata["name"]
        environment = EnvironmentConfig(name=f"{registry.HANDED_OVER}:{name}")
        config = config.replaced(environment=environment)
    updates = config.updates
    if strategy is not None:
        if not isinstance(updates, AsynchronousConfig):
            raise ConfigError(
                f"updates: got {updates.strategy!r} in addition to a strategy object, which "
                "replaces it: leave the section out, or pass no object"
            )
        config = config.replaced(updates=updates.replaced(strategy=CUSTOM))
    elif updates.strategy == CUSTOM:
        raise ConfigError(
            "updates.strategy: got 'custom', which stands for a strategy object: pass the object "
            "again (Trainer's strategy)"
        )
    return config


def resolved(config: RunConfig) -> RunConfig:
    """Make the paths of bases, chat template and data absolute, for a later resume.

    Raises:
        ConfigError: If a base does not exist.
    """
    models = config.models
    bases = tuple(base_named("models.base", one) for one in models.bases.values())
    base = bases[0] if isinstance(models.base, str) else bases
    frozen = {
        n: base_named(f"models.frozen_models.{n}", one) for n, one in models.frozen_models.items()
    }
    template = models.chat_template
    if template is not None and template not in TEMPLATES:
        template = os.path.abspath(os.path.expanduser(template))
    stages: dict[str, Any] = {
        name: stage.replaced(data=tuple(map(os.path.abspath, stage.data)))
        for name, stage in (("sft", config.sft), ("dpo", config.dpo))
        if stage is not None
    }
    models = models.replaced(base=base, frozen_models=frozen, chat_template=template)
    return config.replaced(models=models, **stages)


def _check_environment(config: RunConfig, env: Any) -> None:
    if getattr(env.unwrapped, "text_view", None) is None:
        raise ConfigError(
            f"{env.metadata['name']} has no text_view: language models cannot play it; "
            "give the environment a TextView (docs/environments/games.md)"
        )
    refuse_levels(config.environment, env)


def _baselines(env: Any, only_learners: bool) -> Mapping[str, float]:
    """Return the environment's known values.

    The values hold for all agents together and for the environment's own rewards, so there are none
    with fixed policies or a reward function.
    """
    own_rewards = not isinstance(env, CustomRewards) or env.reward_function is None
    if not (only_learners and own_rewards):
        return {}
    found: Mapping[str, float] = getattr(env.unwrapped, "baselines", dict)()
    return found


# Engines.


def local_parts(
    config: RunConfig,
    settings: RolloutSettings,
    matchmaking: Matchmaking,
    server_logs: Path | None,
    models: Mapping[str, ModelObject],
) -> Parts:
    """Load all models and build the learners in this process, or in each torchrun process."""
    make_env, started = settings.make_env, processes.count()
    sampling = build_sampling(config, matchmaking)
    with processes.main_first():
        players = build_backends(config, make_env, server_logs, given=models)
    with ExitStack() as on_error:
        on_error.callback(players.close)
        tokenizers = {name: players.backends[name].tokenizer for name in players.modules}
        learners = build_learners(
            config, make_env, players.modules, tokenizers, matchmaking, sampling, started
        )
        policies_of: Callable[[Mapping[str, str]], Mapping[str, Policy]] = policies_by_seats(
            config, make_env, players, settings.view, sampling
        )
        policies_of(matchmaking.usual)  # Raises now for a policy that cannot be built.
        engine = (
            Engine(settings, policies_of, players)
            if started == 1
            else ProcessesEngine(settings, policies_of, players, sharded=config.parallel == "fsdp")
        )
        on_error.pop_all()
    return Parts(engine, players, learners)


ENGINES = PluginTable(
    "core_srl.engines",
    {
        "local": Plugin("srl_train.build:local_parts", "this process, or all torchrun processes"),
        "ray": Plugin("srl_extensions.cluster.engine:ray_parts", "a Ray cluster"),
    },
    ConfigError,
)
"""Name to a function from (configuration, rollout settings, matchmaking, folder of server logs,
model objects) to the `Parts` of a run."""


# Learners.


def build_learners(
    config: RunConfig,
    make_env: Callable[[], Any],
    modules: Mapping[str, Any],
    tokenizers: Mapping[str, Any],
    matchmaking: Matchmaking,
    sampling: Mapping[str, Sampling],
    started: int,
) -> dict[str, Learner]:
    """Build the learner of each module.

    Args:
        config: Configuration of the run.
        make_env: Function that makes the environment.
        modules: Model to the module that the learner trains.
        tokenizers: Model to its tokenizer.
        matchmaking: Assignment of models to agents.
        sampling: Agent to the sampling settings of its answers.
        started: Number of processes that share the learners' work.

    Raises:
        TrainingError: If the processes have different models, or do not work together.
    """
    processes.check_equal("the weights to start from", modules)
    if config.parallel == "fsdp" and started > 1:
        for name, module in modules.items():
            fsdp.shard(name, module)
    joint = joint_state(config, make_env)
    learners = {
        name: _build_learner(config, name, module, tokenizers[name], matchmaking, sampling, joint)
        for name, module in modules.items()
    }
    found = {name: own.parallelism() for name, own in learners.items()}
    processes.check_started(found, started, config.parallel)
    return learners


def _build_learner(
    config: RunConfig,
    name: str,
    model: Any,
    tokenizer: Any,
    matchmaking: Matchmaking,
    sampling: Mapping[str, Sampling],
    joint: JointState | None,
) -> Learner:
    agents = matchmaking.agents_of(name)
    algorithm = config.algorithm_of(name)
    stale = _may_be_stale(config, name)
    if config.engine.play_ahead and stale and algorithm.loss in CLIPPED_LOSSES:
        algorithm = algorithm.replaced(trl={"delta": LARGEST_RATIO, **algorithm.trl})
    _check_full_distribution(config, name, {agent: sampling[agent] for agent in agents})
    learner: Learner = ALGORITHMS.load(algorithm.name)(
        name,
        model,
        tokenizer,
        algorithm,
        group_size=config.rollout.group_size,
        temperature=sampling[agents[0]].temperature,
        planned_updates=planned_updates(config, name, matchmaking.mean_held(name)),
        max_divergence=config.backend.divergence_limit,
        discount=config.rollout.discount,
        joint=joint,
        seed=config.seed,
    )
    return learner


def planned_updates(config: RunConfig, model: str, agents: float) -> int:
    """Estimate the number of updates of a run: one per round, or per sample budget.

    Args:
        config: Configuration of the run.
        model: Name of the model.
        agents: Mean number of agents that the model plays in an episode.
    """
    samples = agents * config.rollout.episodes
    budget = config.sample_budget.get(model, max(samples, config.rollout.group_size))
    return max(1, int(config.rounds * samples // budget))


def _may_be_stale(config: RunConfig, model: str) -> bool:
    """Return True if older weights of the model may have sampled what it learns from.

    Without a budget, a round's samples are used at once unless rounds are played ahead. With a
    budget, samples may be left for later, even with a budget of whole rounds if a group failed.
    """
    ahead = config.engine.play_ahead and config.updates.max_staleness > 0
    return ahead or model in config.sample_budget


def _check_full_distribution(
    config: RunConfig, name: str, sampling: Mapping[str, Sampling]
) -> None:
    """Raise ConfigError for truncated sampling where a setting reads sampled log-probabilities.

    Those settings compare them with log-probabilities over the whole vocabulary.
    """
    reader = None
    if name in config.sample_budget:
        reader = f"updates.sample_budget.{name}"
    elif _may_be_stale(config, name):
        reader = "engine.play_ahead"
    elif config.algorithm_of(name).trl.get("off_policy_mask_threshold"):
        reader = "trl.off_policy_mask_threshold"
    elif config.backend.divergence_limit is not None:
        reader = f"backend.name {config.backend.name}"
    for agent, own in sampling.items():
        if reader and (own.top_p < 1 or own.top_k):
            raise ConfigError(
                f"{reader} compares {name} with its sampled log-probabilities, but {agent} samples "
                f"from a part of the vocabulary, top_p {own.top_p:g} and top_k {own.top_k}: set "
                f"top_p 1 and top_k 0 there, or leave {reader} out"
            )


def joint_state(config: RunConfig, make_env: Callable[[], Any]) -> JointState | None:
    """Return the joint state that central critics observe, or None without central critics.

    Raises:
        ConfigError: If the environment has no state().
    """
    if not config.records_states:
        return None
    with closing(make_env()) as env:
        env.reset(seed=0)
        try:
            size = env.state().size
        except NotImplementedError as error:  # PettingZoo's default
            raise ConfigError(
                f"algorithm.critic: got 'central', and {env.metadata['name']} has no state(): "
                "add one, or choose shared or separate"
            ) from error
        return JointState(tuple(env.possible_agents), size)
