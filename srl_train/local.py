"""Local engine: models and learners of a run in this process, or in all torchrun processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from srl_agents.llm.sampling import Sampling
from srl_agents.matchmaking import Matchmaking
from srl_train import fsdp, processes
from srl_train.build import Parts
from srl_train.config.learning.learners import CLIPPED_LOSSES
from srl_train.config.run import RunConfig
from srl_train.engines import Engine, ProcessesEngine, RolloutSettings
from srl_train.learners.learner import Learner
from srl_train.loading import ModelObject, SamplerStart, build_backends
from srl_train.players import build_sampling, policies_by_seats
from srl_train.samples import JointState

LARGEST_RATIO = 4.0
"""Largest ratio of new to sampling probability of a token, for samples of older weights.

TRL's `delta` bounds it also for negative advantages (dual-clip PPO, Ye et al. 2020, sec. 3.2)."""


def local_parts(
    config: RunConfig,
    settings: RolloutSettings,
    matchmaking: Matchmaking,
    server_logs: Path | None,
    models: Mapping[str, ModelObject],
) -> Parts:
    """Load a run's models; return an engine with them and their learners.

    `server_logs` is the folder for logs of model servers, None a folder in the cache; `models`
    replace bases, by model name. Raises ConfigError for a policy that cannot play, and the errors
    of `build_backends` and `build_learners`.
    """
    make_env = settings.make_env
    sampling = build_sampling(config, matchmaking)
    players = build_backends(config, SamplerStart(make_env, server_logs, given=models))
    with ExitStack() as on_error:
        on_error.callback(players.close)
        tokenizers = {name: players.backends[name].tokenizer for name in players.modules}
        learners = build_learners(
            config, make_env, players.modules, tokenizers, matchmaking, sampling
        )
        policies_of = policies_by_seats(config, make_env, players, settings.view, sampling)
        policies_of(matchmaking.usual)  # Raises now for a policy that cannot be built.
        engine = (
            Engine(settings, policies_of, players)
            if processes.count() == 1
            else ProcessesEngine(settings, policies_of, players, sharded=config.parallel == "fsdp")
        )
        on_error.pop_all()
    return Parts(engine, players, learners)


def build_learners(
    config: RunConfig,
    make_env: Callable[[], Any],
    modules: Mapping[str, Any],
    tokenizers: Mapping[str, Any],
    matchmaking: Matchmaking,
    sampling: Mapping[str, Sampling],
) -> dict[str, Learner]:
    """Return model -> learner, for each entry of `modules` (model -> module to train).

    With FSDP in several processes, modules are first sharded in place. `sampling` is by agent.
    Raises ConfigError for options that TRL or the optimizer rejects, and TrainingError if a module
    cannot be sharded or accelerate has other processes.
    """
    if config.parallel == "fsdp" and processes.count() > 1:
        for name, module in modules.items():
            fsdp.shard(name, module)
    joint = None
    if config.records_states:
        with closing(make_env()) as env:
            env.reset(seed=0)
            with suppress(NotImplementedError):  # PettingZoo's default of state()
                joint = JointState(tuple(env.possible_agents), env.state().size)
    learners: dict[str, Learner] = {}
    for name, module in modules.items():
        algorithm = config.algorithm_of(name)
        stale = config.updates.max_staleness > 0 or name in config.sample_budget
        if config.engine.play_ahead and stale and algorithm.loss in CLIPPED_LOSSES:
            algorithm = algorithm.replaced(trl={"delta": LARGEST_RATIO, **algorithm.trl})
        learners[name] = resolve_name(algorithm.LEARNER)(
            name,
            module,
            tokenizers[name],
            algorithm,
            group_size=config.rollout.group_size,
            temperature=sampling[matchmaking.agents_of(name)[0]].temperature,
            planned_updates=planned_updates(config, name, matchmaking.mean_held(name)),
            max_divergence=config.backend.divergence_limit,
            discount=config.rollout.discount,
            joint=joint,
            seed=config.seed,
        )
    return learners


def planned_updates(config: RunConfig, model: str, agents: float) -> int:
    """Estimate a model's number of updates in the whole run, at least 1.

    The result is the run's samples // the model's `sample_budget`, by default a round's samples, at
    least the group size. `agents` is the mean number of agents of the model in an episode.
    """
    samples = agents * config.rollout.episodes
    budget = config.sample_budget.get(model, max(samples, config.rollout.group_size))
    return max(1, int(config.rounds * samples // budget))
