"""Training as a configuration says it alone: model, environments and data by their names."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mrlm.algorithms import games
from mrlm.algorithms.dpo import PreferenceDataset, PreferredAnswers, pairs_in, write_pairs
from mrlm.algorithms.run_config import run_config
from mrlm.algorithms.training import Place, train
from mrlm.config.experiment import ExperimentConfig
from mrlm.core.written_game import WrittenGame
from mrlm.environments.configured import configured
from srl_agents.atomic_files import whole_file
from srl_envs.loading.untrusted import read_bytes, read_json
from srl_train.distributed import processes
from srl_train.errors import ConfigError, DataError
from srl_train.metrics import Progress


def train_configured(
    config: ExperimentConfig, place: Place, resume: str | None = None
) -> dict[str, Any]:
    """Train from the beginning or from a checkpoint; returns what Trainer.fit does.

    Raises ConfigError for an experiment that says not enough, and DataError for files that hold no
    data.
    """
    algorithm, training = config.training.algorithm, config.training
    environments = [
        configured(one, f"eval_envs[{number}]") for number, one in enumerate(config.eval_envs)
    ]
    make_env: Callable[[], Any] | None = None
    named, pairs = games.named(environments, training.max_episode_length), None
    if algorithm == "dpo":
        pairs = PreferenceDataset.from_json(_required(config))
        if not environments:
            make_env = lambda: WrittenGame(PreferredAnswers(pairs))  # noqa: E731
    elif not environments:
        raise ConfigError("eval_envs: there are none: name the environments to train in")
    if environments and named is None:
        make_env = games.make_env(environments, training.max_episode_length)
    data = _file_of(config, place)
    run = run_config(
        config,
        algorithm,
        training.iterations,
        environment=named,
        model=config.model,
        generation=config.model.generation,
        data=None if data is None else str(data),
    )
    if resume is None:
        place.cleared()
        _write_data(config, pairs, place)
    return train(
        run,
        place,
        evaluate_every=config.every("eval"),
        make_env=make_env,
        sinks=(Progress(run.rounds, log_every=run.logging.every),) if processes.is_main() else (),
        resume=resume,
    )


def _required(config: ExperimentConfig) -> str:
    if config.dpo.data is None:
        raise ConfigError("dpo.data: there is none: name a file of preferences to learn from")
    return config.dpo.data


def _file_of(config: ExperimentConfig, place: Place) -> Path | None:
    """The file in the run's folder that it learns from, if it learns from one."""
    algorithm = config.training.algorithm
    if algorithm == "dpo":
        return pairs_in(place)
    if algorithm == "sft" and config.sft.data is not None:
        if config.sft.filter_low_reward:
            raise ConfigError(
                "sft.filter_low_reward: it chooses among games that are played, and sft.data names "
                "a file: choose with mrlm collect --filter-reward"
            )
        return place.data / "trajectories.jsonl"
    return None


def _write_data(config: ExperimentConfig, pairs: PreferenceDataset | None, place: Place) -> None:
    if pairs is not None:
        write_pairs(pairs, place)
    elif config.training.algorithm == "sft" and config.sft.data is not None:
        chats = _chats(config.sft.data)[: config.sft.max_trajectories]
        if processes.is_main():
            with whole_file(place.data / "trajectories.jsonl") as file:
                file.writelines(json.dumps({"messages": chat}) + "\n" for chat in chats)


def _chats(path: str) -> Sequence[Sequence[Mapping[str, str]]]:
    """The conversations of a file that `mrlm collect` wrote; raises DataError for another file."""
    try:
        found = read_json(read_bytes(Path(path)))["trajectories"]
        chats = [
            [*one["observations"][-1]["messages"], one["actions"][-1]]
            for one in found
            if one["actions"]
        ]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise DataError(f"{path} holds no trajectories: give a file of mrlm collect") from error
    if not chats:
        raise DataError(f"{path} holds no answers: collect more episodes")
    return chats
