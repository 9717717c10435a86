"""Assembly of a run from its configuration: environment, agents, models, learners, strategy."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from srl_agents.llm.chat_format import TEMPLATES
from srl_agents.rollout.matchmaking import Matchmaking
from srl_envs import registry
from srl_envs.wrappers.reward_function import CustomRewards
from srl_train.config.engine import RayEngineConfig
from srl_train.config.learning.updates import CUSTOM, AsynchronousConfig
from srl_train.config.run import EnvironmentConfig, RunConfig
from srl_train.credit import CREDIT_SCHEMES, REPLAY_SCHEMES
from srl_train.data.sample_buffer import SampleBuffer
from srl_train.distributed import processes
from srl_train.engine.builders.environment import build_env
from srl_train.engine.engine import Engine, ProcessesEngine
from srl_train.engine.state import ModelTotals, Run
from srl_train.errors import ConfigError
from srl_train.learners.learner import Learner
from srl_train.loading import ModelObject, Players, build_backends, with_model_objects
from srl_train.modes import MODES
from srl_train.player_names import base_named
from srl_train.players import (
    SeatedPolicies,
    build_sampling,
    matchmaking_of,
    policies_by_seats,
    refuse_levels,
)
from srl_train.replays import check_copies, check_replayable
from srl_train.scores import roles_of
from srl_train.updates import STRATEGIES, UpdateStrategy


def assemble(
    config: RunConfig,
    make_env: Callable[[], Any] | None = None,
    strategy: UpdateStrategy | None = None,
    server_logs: Path | None = None,
    models: Mapping[str, ModelObject] | None = None,
) -> Run:
    """Everything a run needs, before its first round.

    `make_env` takes the place of `config.environment` for environments outside the catalogue,
    `strategy` that of `config.updates.strategy`; the run's config says so. `server_logs` is where
    model servers write logs (None: the cache folder). `models` are trained in place of some that
    `config.models.base` names (Trainer). Raises ConfigError for what does not fit
    together, and UpdateError for models that the strategy cannot average.
    """
    torch.set_num_threads(config.threads)
    started = processes.start(config.models.device, config.threads)
    _check_shares(config, started)
    if started > 1 and not config.backend.IN_PROCESS:
        raise ConfigError(
            f"backend.name: got {config.backend.name!r} in {started} processes, which would "
            "all publish to the servers: start one process, or give transformers"
        )
    if started > 1 and isinstance(config.engine, RayEngineConfig):
        raise ConfigError(
            f"engine.name: got 'ray' in {started} processes: torchrun shares one learner's work, "
            "Ray shares a run's; start one process, or give local"
        )
    if started > 1 and config.engine.play_ahead:
        raise ConfigError(
            f"engine.play_ahead: got true in {started} processes, which have to stay in step: "
            "start one process, or give false"
        )
    if started > 1 and config.rollout.branching is not None:
        raise ConfigError(
            f"rollout.branching: got a section in {started} processes, which share whole games: "
            "start one process, or leave it out"
        )
    processes.check_same("the configuration", config)
    models = models or {}
    config = resolved(with_model_objects(_with_own_parts(config, make_env, strategy), models))
    make_env = make_env or partial(build_env, config)
    with closing(make_env()) as env:
        return _assembled(config, make_env, env, strategy, started, server_logs, models)


def _assembled(
    config: RunConfig,
    make_env: Callable[[], Any],
    env: Any,
    strategy: UpdateStrategy | None,
    started: int,
    server_logs: Path | None,
    models: Mapping[str, ModelObject],
) -> Run:
    if getattr(env.unwrapped, "text_view", None) is None:
        raise ConfigError(
            f"{env.metadata['name']} has no text_view: language models cannot play it; "
            "give the environment a TextView (docs/environments/games.md)"
        )
    refuse_levels(config.environment, env)
    if config.credit.name in REPLAY_SCHEMES:
        env.reset(seed=0)
        check_replayable(f"credit.name: got {config.credit.name!r}", env)
    if config.rollout.branching is not None:
        env.reset(seed=0)
        check_copies("rollout.branching: got a section", env)
    matchmaking = matchmaking_of(config, env)
    if isinstance(config.engine, RayEngineConfig):
        parts = _on_cluster(config, config.engine, make_env, server_logs)
    else:
        parts = _in_process(config, make_env, env, matchmaking, started, server_logs, models)
    with ExitStack() as ends:
        ends.callback(parts.players.close)
        run = _with_parts(config, make_env, env, strategy, matchmaking, parts)
        for name in run.learners:
            run.engine.publish(run, name)
        ends.pop_all()
    return run


class _Parts(NamedTuple):
    """What depends on where a run is carried out."""

    engine: Engine
    players: Players
    policies: SeatedPolicies
    """Agent -> who plays it, to agent -> policy, where those play in this process."""
    learners: Mapping[str, Learner]


def _in_process(
    config: RunConfig,
    make_env: Callable[[], Any],
    env: Any,
    matchmaking: Matchmaking,
    started: int,
    server_logs: Path | None,
    models: Mapping[str, ModelObject],
) -> _Parts:
    """Everything in this process, which is one of `started`."""
    from srl_train.engine.builders.learners import build_learners  # only here: TRL

    sampling = build_sampling(config, matchmaking)
    with processes.main_first():
        players = build_backends(config, make_env, server_logs, given=models)
    with ExitStack() as ends:
        ends.callback(players.close)
        modules = players.modules
        tokenizers = {name: players.backends[name].tokenizer for name in modules}
        learners = build_learners(
            config, make_env, modules, tokenizers, matchmaking, sampling, started
        )
        view = env.unwrapped.text_view
        policies = policies_by_seats(config, make_env, players, view, sampling)
        policies(matchmaking.usual)  # what cannot be built is told now
        ends.pop_all()
    return _Parts(ProcessesEngine() if started > 1 else Engine(), players, policies, learners)


def _on_cluster(
    config: RunConfig,
    section: RayEngineConfig,
    make_env: Callable[[], Any],
    server_logs: Path | None,
) -> _Parts:
    """Players, learners and model servers in the actors of a Ray cluster."""
    _check_shares(config, section.learner_processes)
    from srl_train.distributed.ray_engine.engine import start_engine

    engine, players = start_engine(config, section, make_env, server_logs)
    return _Parts(engine, players, lambda seats: {}, engine.learners)


def _with_parts(
    config: RunConfig,
    make_env: Callable[[], Any],
    env: Any,
    strategy: UpdateStrategy | None,
    matchmaking: Matchmaking,
    parts: _Parts,
) -> Run:
    players, learners, seats = parts.players, parts.learners, matchmaking.usual
    strategy = strategy or STRATEGIES[config.updates.strategy](config.updates)
    strategy.check({name: learner.weights() for name, learner in learners.items()})
    mode = MODES[config.mode.name](config.mode)
    credit = CREDIT_SCHEMES[config.credit.name](config.credit, config.rollout.discount)
    teams = getattr(env.unwrapped, "teams", None)
    # Those are of all agents together, and of the game's own rewards: beside a partner that stays
    # as it is, or where a function rewards, they say nothing.
    alone = set(seats.values()) <= learners.keys()
    own_rewards = not isinstance(env, CustomRewards) or env.reward_function is None
    baselines: dict[str, float] = {}
    if alone and own_rewards:
        baselines = getattr(env.unwrapped, "baselines", dict)()
    return Run(
        config=config,
        engine=parts.engine,
        make_env=make_env,
        view=env.unwrapped.text_view,
        teams=teams,
        matchmaking=matchmaking,
        seats=seats,
        policies=parts.policies(seats),
        seated=parts.policies,
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
        speaks_first=mode.speaks_first(list(seats), teams),
        pools=players.pools,
        players=players,
        baselines=baselines,
        versions=dict.fromkeys(learners, 0),
        totals={name: ModelTotals() for name in learners},
        frozen_totals={name: ModelTotals() for name in config.models.frozen_models},
    )


def resolved(config: RunConfig) -> RunConfig:
    """The config with its bases, template and files of data by their whole paths: from wherever a
    run is gone on with, it means the same. Raises ConfigError for a base that is not there."""
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


def _check_shares(config: RunConfig, number: int) -> None:
    """Raise ConfigError where an update's samples cannot be dealt to `number` processes.

    An update may be as small as one group: the others may have failed.
    """
    for section in config.learned_by.values():
        parts = number * section.minibatches * section.gradient_accumulation_steps
        if number > 1 and config.rollout.group_size % parts:
            raise ConfigError(
                f"rollout.group_size: got {config.rollout.group_size}: give a multiple of {parts}, "
                f"{number} processes x algorithm.minibatches ({section.minibatches}) x "
                f"algorithm.gradient_accumulation_steps ({section.gradient_accumulation_steps})"
            )


def _with_own_parts(
    config: RunConfig, make_env: Callable[[], Any] | None, strategy: UpdateStrategy | None
) -> RunConfig:
    """The config as it is recorded: parts that were handed over as objects under such names that
    nobody can resume the run from its files alone and get other parts without noticing.
    """
    if make_env is not None:
        with closing(make_env()) as env:
            name = env.metadata["name"]
        environment = EnvironmentConfig(name=f"{registry.HANDED_OVER}:{name}")
        config = config.replaced(environment=environment)
    updates = config.updates
    if strategy is not None:
        if not isinstance(updates, AsynchronousConfig):
            raise ConfigError(
                f"updates: got {updates.strategy!r} beside a strategy handed over as an object, "
                "which takes its place: leave the section out, or hand none over"
            )
        config = config.replaced(updates=updates.replaced(strategy=CUSTOM))
    elif updates.strategy == CUSTOM:
        raise ConfigError(
            "updates.strategy: got 'custom', which was handed over as an object and has no name: "
            "hand it over again (Trainer's strategy)"
        )
    return config
