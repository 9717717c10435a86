"""Construction of a run from its configuration; `build_run` has all steps in order."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from srl_agents.llm.chat_format import TEMPLATES
from srl_envs import registry, scenarios
from srl_envs.games.base import step_baselines
from srl_envs.wrappers import CustomRewards
from srl_train import processes
from srl_train.config import capabilities
from srl_train.config.capabilities import OBJECTS, PROCESSES
from srl_train.config.learning.updates import CUSTOM, AsynchronousConfig
from srl_train.config.run import EnvironmentConfig, RunConfig
from srl_train.credit import CREDIT_HOOKS, CREDIT_SCHEMES, Credit
from srl_train.engines import Engine, Players, RolloutSettings
from srl_train.environment import build_env
from srl_train.errors import ConfigError
from srl_train.learners.learner import Learner
from srl_train.modes import MODES
from srl_train.player_names import base_named
from srl_train.players import matchmaking_of
from srl_train.run import ModelTotals, Run
from srl_train.samples import SampleBuffer
from srl_train.scores import roles_of
from srl_train.updates import STRATEGIES, UpdateStrategy

if TYPE_CHECKING:
    from srl_train.loading import ModelObject


class Parts(NamedTuple):
    """Engine, loaded models and learners of a run; `learners` is by the name of the model."""

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
    """Load the models, build the learners and all else before the first round; return a Run.

    Also sets torch's number of CPU threads, joins torchrun's processes, may start model servers,
    and publishes the first weights. `Run.config` has absolute paths and names of passed objects.

    Args:
        config: Configuration of the run.
        make_env: Function that makes the environment; replaces `config.environment`.
        strategy: Update strategy; replaces `config.updates.strategy`, which must be the default.
        server_logs: Folder for the logs of model servers; None uses the cache folder.
        models: Model name to (PreTrainedModel, tokenizer) to train, which replace its base.

    Raises:
        ConfigError: If settings, environment and passed objects do not fit together.
        EnvConfigError: If the environment has levels or problems reserved for evaluation.
        TrainingError: If torchrun's variables are incomplete, or its processes differ.
        UpdateError: If the strategy cannot average the models.
        BackendError, PolicyError: If a model cannot be loaded.
    """
    torch.set_num_threads(config.threads)
    started = processes.start(config.models.device, config.threads)
    config.check_sizes(started)
    capabilities.check(config, *[PROCESSES] * (started > 1), *[OBJECTS] * bool(models))
    processes.check_same("the configuration", config)
    models = models or {}
    config = _with_objects_named(config, make_env, strategy)
    if models:
        from srl_train.loading import with_model_objects  # Imports transformers.

        config = with_model_objects(config, models)
    config = resolved(config)
    make_env = make_env or partial(build_env, config)
    with closing(make_env()) as env:
        if getattr(env.unwrapped, "text_view", None) is None:
            raise ConfigError(
                f"{env.metadata['name']} has no text_view: language models cannot play it; "
                "give the environment a TextView (docs/environments/games.md)"
            )
        section = config.environment
        scenarios.refuse_levels("environment", section.name, section.options, env)
        credit, roles = build_credit(config, env), roles_of(env)
        matchmaking = matchmaking_of(config, env)
        view, teams = env.unwrapped.text_view, getattr(env.unwrapped, "teams", None)
        # Known values hold for all agents together and for the environment's own rewards.
        own_rewards = not isinstance(env, CustomRewards) or env.reward_function is None
        baselines = step_baselines(env.unwrapped) if own_rewards else {}
    mode = MODES[config.mode.name](config.mode)
    speaks_first = mode.speaks_first(list(matchmaking.usual), teams)
    settings = RolloutSettings(
        make_env, view, speaks_first, config.rollout.timeout, config.engine.in_flight
    )
    with ExitStack() as on_error:
        build_parts = resolve_name(config.engine.PARTS)
        parts: Parts = build_parts(config, settings, matchmaking, server_logs, models)
        on_error.callback(parts.players.close)
        learners = parts.learners
        strategy = strategy or STRATEGIES.load(config.updates.strategy)(config.updates)
        strategy.check({name: learner.weights() for name, learner in learners.items()})
        only_learners = set(matchmaking.usual.values()) <= learners.keys()
        size, staleness = config.rollout.group_size, config.updates.max_staleness
        run = Run(
            config=config,
            engine=parts.engine,
            make_env=make_env,
            view=view,
            teams=teams,
            matchmaking=matchmaking,
            learners=learners,
            buffers={
                name: SampleBuffer(size, config.sample_budget.get(name), staleness)
                for name in learners
            },
            strategy=strategy,
            strategy_state=strategy.init(list(learners)),
            mode=mode,
            mode_state=mode.init(),
            credit=credit,
            credit_state={},
            roles=roles,
            speaks_first=speaks_first,
            players=parts.players,
            baselines=baselines if only_learners else {},
            versions=dict.fromkeys(learners, 0),
            totals={name: ModelTotals() for name in learners},
            frozen_totals={name: ModelTotals() for name in config.models.frozen_models},
        )
        for name in learners:
            run.publish(name)
        on_error.pop_all()
    return run


def _with_objects_named(
    config: RunConfig, make_env: Callable[[], Any] | None, strategy: UpdateStrategy | None
) -> RunConfig:
    if make_env is not None:
        with closing(make_env()) as env:
            name = env.metadata["name"]
        environment = EnvironmentConfig(name=f"{registry.HANDED_OVER}:{name}")
        config = config.replaced(environment=environment)
    updates = config.updates
    if strategy is not None:
        if not isinstance(updates, AsynchronousConfig):
            raise ConfigError(
                f"updates must be left out if a strategy is passed, got {updates.strategy!r}"
            )
        config = config.replaced(updates=updates.replaced(strategy=CUSTOM))
    elif updates.strategy == CUSTOM:
        raise ConfigError("updates.strategy 'custom' requires the argument `strategy` of Trainer")
    return config


def resolved(config: RunConfig) -> RunConfig:
    """Return a copy of the configuration with absolute paths instead of relative ones.

    The paths are those of bases, frozen models, chat template and data. Raises ConfigError if a
    base or frozen model is not exactly one model, or a base is in a checkpoint.
    """
    models = config.models
    bases = tuple(base_named("models.base", one) for one in models.bases.values())
    base = bases[0] if isinstance(models.base, str) else bases
    frozen = {
        n: base_named(f"models.frozen_models.{n}", one) for n, one in models.frozen_models.items()
    }
    template = models.chat_template
    if template is not None and template not in TEMPLATES:
        template = os.path.abspath(template)
    stages: dict[str, Any] = {
        name: stage.replaced(data=tuple(map(os.path.abspath, stage.data)))
        for name, stage in config.stages.items()
    }
    models = models.replaced(base=base, frozen_models=frozen, chat_template=template)
    return config.replaced(models=models, **stages)


def build_credit(config: RunConfig, env: Any) -> Credit:
    """Build the credit scheme that the configuration selects, as a Credit.

    `env`, which a scheme may reset, is an environment of the run. Raises ConfigError if the scheme
    is unknown or requires replays that `env` does not support.
    """
    name = config.credit.name
    scale = getattr(config.algorithm_of(config.models.names[0]), "scale_rewards", "group")
    scheme = CREDIT_SCHEMES.load(name)(config.credit, config.rollout.discount, scale)
    if name not in CREDIT_HOOKS:
        return Credit(scheme)
    return CREDIT_HOOKS.load(name)(config, env, scheme)  # type: ignore[no-any-return]
