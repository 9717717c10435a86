"""Experiments from YAML files, and back to YAML."""

from __future__ import annotations

from pathlib import Path

import yaml

from mrlm.config.experiment import ExperimentConfig
from srl_agents.atomic_files import whole_file
from srl_train.config.yaml_file import read_tree, section_from_tree, to_tree


def load_config(path: str | Path) -> ExperimentConfig:
    """The experiment of a YAML file.

    Raises ConfigError for an unknown setting (naming the nearest), a wrong type, or a value that is
    not allowed.
    """
    tree = read_tree(path)
    return section_from_tree(ExperimentConfig, {} if tree is None else tree, "")


class ConfigParser:
    """Experiments from and to YAML files."""

    @staticmethod
    def load(path: str | Path) -> ExperimentConfig:
        """See load_config."""
        return load_config(path)

    @staticmethod
    def save(config: ExperimentConfig, path: str | Path) -> None:
        """Write an experiment with all its settings."""
        with whole_file(Path(path)) as file:
            file.write(yaml.safe_dump(to_tree(config), sort_keys=False))
