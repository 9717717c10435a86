"""From a configuration to a run: environment, seats, models, learners, strategy and mode."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch

from srl_agents.classic.table import POLICIES
from srl_agents.llm import tiny
from srl_agents.llm.backends.huggingface import HuggingFaceBackend
from srl_agents.llm.sampling import Sampling
from srl_agents.llm.text_policy import TextPolicy
from srl_agents.policy import Policy
from srl_agents.population import deal
from srl_envs import catalogue
from srl_envs.errors import EnvConfigError
from srl_train.buffers import SampleBuffer
from srl_train.config import EnvironmentConfig, RunConfig
from srl_train.credit import ASSIGNMENTS
from srl_train.errors import ConfigError
from srl_train.learners.trl_grpo import GrpoLearner
from srl_train.learners.trl_options import check_trl_options
from srl_train.lora import adapter_models, side_by_side
from srl_train.modes import MODES
from srl_train.run import ModelTotals, Run
from srl_train.updates import STRATEGIES, UpdateStrategy


def assemble(
    config: RunConfig,
    make_env: Callable[[], Any] | None = None,
    strategy: UpdateStrategy | None = None,
) -> Run:
    """Everything a run needs, before its first round.

    `make_env` takes the place of `config.environment` for environments outside the catalogue,
    `strategy` that of `config.updates.strategy`; the run's config says so. Raises ConfigError for
    what does not fit together, and UpdateError for models that the strategy cannot average.
    """
    torch.set_num_threads(config.threads)
    config = _with_own_parts(config, make_env, strategy)
    make_env = make_env or environment_maker(config)
    env = make_env()
    view = getattr(env.unwrapped, "text_view", None)
    if view is None:
        raise ConfigError(
            f"{env.metadata['name']} has no text_view: language models cannot play it; "
            "give the environment a TextView (docs/environments.md)"
        )
    seats = _dealt(config, env.possible_agents)
    sampling = _sampling(config, seats)
    backends, models = _load_models(config, make_env)
    learners = {
        name: _learner(config, name, model, backends[name].tokenizer, seats, sampling)
        for name, model in models.items()
    }
    strategy = strategy or STRATEGIES[config.updates.strategy](config.updates)
    strategy.check({name: learner.weights() for name, learner in learners.items()})
    mode = MODES[config.mode.name](config.mode)
    credit = ASSIGNMENTS[config.credit.name](config.credit, config.rollout.discount)
    teams = getattr(env.unwrapped, "teams", None)
    baselines: dict[str, float] = getattr(env.unwrapped, "baselines", dict)()
    return Run(
        config=config,
        make_env=make_env,
        view=view,
        teams=teams,
        seats=seats,
        policies=_policies(config, env.metadata["name"], seats, backends, view, sampling),
        learners=learners,
        buffers={
            name: SampleBuffer(
                config.rollout.group_size,
                config.updates.sample_budget.get(name),
                config.updates.max_staleness,
            )
            for name in learners
        },
        strategy=strategy,
        strategy_state=strategy.init(list(learners)),
        mode=mode,
        mode_state=mode.init(),
        credit=credit,
        credit_state=credit.init(),
        speaks_first=mode.speaks_first(list(seats), teams),
        announce_version=_announcer(config, backends),
        baselines=baselines,
        versions=dict.fromkeys(learners, 0),
        totals={name: ModelTotals() for name in learners},
    )


def _with_own_parts(
    config: RunConfig, make_env: Callable[[], Any] | None, strategy: UpdateStrategy | None
) -> RunConfig:
    """The config as it is recorded: parts that were handed over as objects under such names that
    nobody can resume the run from its files alone and get other parts without noticing.
    """
    if make_env is not None:
        environment = EnvironmentConfig(f"custom:{make_env().metadata['name']}")
        config = dataclasses.replace(config, environment=environment)
    if strategy is not None:
        updates = dataclasses.replace(config.updates, strategy="custom")  # type: ignore[arg-type]
        config = dataclasses.replace(config, updates=updates)
    return config


def environment_maker(config: RunConfig) -> Callable[[], Any]:
    """Makes the configured environment; a wrong name or option is a ConfigError now."""
    section = config.environment

    def make() -> Any:
        return catalogue.make(section.name, **section.options)

    try:
        make()
    except (EnvConfigError, TypeError) as error:
        raise ConfigError(f"environment: {error}") from error
    return make


def _dealt(config: RunConfig, agents: list[str]) -> dict[str, str]:
    known = {*config.models.names, *POLICIES}
    for seat, who in config.seats.items():
        if who not in known:
            raise ConfigError(f"seats.{seat} is {who!r}: give one of {', '.join(sorted(known))}")
    try:
        return deal(agents, config.models.names, config.seats)
    except ValueError as error:
        raise ConfigError(f"seats: {error}") from error


def _sampling(config: RunConfig, seats: Mapping[str, str]) -> dict[str, Sampling]:
    models = config.models
    for seat in models.seat_sampling:
        if seat not in seats:
            raise ConfigError(
                f"models.seat_sampling names {seat!r}: the seats are {', '.join(seats)}"
            )
    sampling = {seat: models.seat_sampling.get(seat, models.sampling) for seat in seats}
    for name in models.names:
        own = {sampling[seat].temperature for seat, who in seats.items() if who == name}
        if len(own) > 1 or own == {0.0}:
            raise ConfigError(
                f"{name} samples at temperatures {sorted(own)}: a model that trains needs one "
                "temperature above 0 in all its seats"
            )
    return sampling


def _learner(
    config: RunConfig,
    name: str,
    model: Any,
    tokenizer: Any,
    seats: Mapping[str, str],
    sampling: Mapping[str, Sampling],
) -> GrpoLearner:
    held = [seat for seat, who in seats.items() if who == name]
    per_round = len(held) * config.rollout.episodes
    budget = config.updates.sample_budget.get(name, per_round)
    # Without a budget all is trained on at once. With one, samples may be left for later: even a
    # budget of whole rounds is out of step after a group that failed.
    stale = name in config.updates.sample_budget
    return GrpoLearner(
        name,
        model,
        tokenizer,
        config.grpo,
        group_size=config.rollout.group_size,
        temperature=sampling[held[0]].temperature,
        trl=check_trl_options(config.trl),
        planned_updates=max(1, config.rounds * per_round // budget),
        replays=config.models.constrained or stale or config.credit.name != "per_agent",
        seed=config.seed,
    )


def _load_models(
    config: RunConfig, make_env: Callable[[], Any]
) -> tuple[dict[str, HuggingFaceBackend], dict[str, Any]]:
    """(model -> the backend that samples for it, model -> the module its learner trains)."""

    def load(base: str, name: str | None = None) -> HuggingFaceBackend:
        source = tiny.folder(make_env) if base == "tiny" else base
        return HuggingFaceBackend.load(
            source, device=config.models.device, dtype=config.models.dtype, name=name
        )

    names, adapters = config.models.names, config.models.adapters
    if adapters is None:
        backends = {
            name: load(base, name) for name, base in zip(names, config.models.bases, strict=True)
        }
        return backends, {name: backend.model for name, backend in backends.items()}
    base = load(config.models.bases[0])
    models = adapter_models(base.model, names, adapters, config.seed)
    together = HuggingFaceBackend(
        side_by_side(base.model, models, adapters), base.tokenizer, name=base.name
    )
    return dict.fromkeys(names, together), models


def _policies(
    config: RunConfig,
    game: str,
    seats: Mapping[str, str],
    backends: Mapping[str, HuggingFaceBackend],
    view: Any,
    sampling: Mapping[str, Sampling],
) -> dict[str, Policy]:
    """One policy object per backend, so that its seats are answered in one batch."""
    adapter = dict(seats) if config.models.adapters is not None else None
    writers = {
        id(backend): TextPolicy(
            backend,
            view,
            per_seat=sampling,
            adapter=adapter,
            constrained=config.models.constrained,
        )
        for backend in backends.values()
    }
    policies: dict[str, Policy] = {}
    for seat, who in seats.items():
        if who in backends:
            policies[seat] = writers[id(backends[who])]
        else:
            policies[seat] = _classic(who, game)
    return policies


def _classic(name: str, game: str) -> Policy:
    try:
        return POLICIES[name](game)
    except ValueError as error:
        raise ConfigError(f"seats: {error}") from error


def _announcer(
    config: RunConfig, backends: Mapping[str, HuggingFaceBackend]
) -> Callable[[str, int], None]:
    def announce(model: str, version: int) -> None:
        if config.models.adapters is None:
            backends[model].weights_version = version
        else:
            backends[model].adapter_versions[model] = version

    return announce
