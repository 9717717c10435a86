"""DPO: direct preference optimization (Rafailov et al. 2023), and its data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from mrlm.algorithms.trainer import PolicyTrainer
from mrlm.config import ExperimentConfig
from mrlm.core.language_model import LLMEnvironment
from mrlm.core.types import Message, MessageRole
from srl_agents.atomic_files import whole_file
from srl_train.distributed import processes
from srl_train.errors import DataError


@dataclass(frozen=True)
class PreferencePair:
    """Two answers to one conversation: a better and a worse answer."""

    prompt: Sequence[Message]
    """Conversation up to the answer."""
    chosen: str
    """Better answer."""
    rejected: str
    """Worse answer."""

    def row(self) -> dict[str, list[dict[str, str]]]:
        """Return the pair in TRL's conversational format."""
        # Chat templates have no role for environments.
        roles = {MessageRole.ENVIRONMENT: "user"}
        prompt = [(roles.get(MessageRole(m.role), str(m.role)), m.content) for m in self.prompt]
        columns = {
            "prompt": prompt,
            "chosen": [("assistant", self.chosen)],
            "rejected": [("assistant", self.rejected)],
        }
        return {
            column: [{"role": role, "content": content} for role, content in messages]
            for column, messages in columns.items()
        }


class PreferenceDataset(tuple[PreferencePair, ...]):
    """Immutable sequence of preference pairs."""

    def to_json(self, path: str | Path) -> None:
        """Write one line of JSON per pair, as `dpo.data` and TRL read the pairs."""
        with whole_file(Path(path)) as file:
            file.writelines(json.dumps(pair.row()) + "\n" for pair in self)


class DPOTrainer(PolicyTrainer):
    """Trainer with DPO on pairs of answers, by `config.dpo`; an iteration is a pass over the pairs.

    The reference is the model at the start of training.

    Args:
        policy_env: Policy in SERVER mode.
        preference_dataset: Pairs of answers.
        config: Settings of the experiment.

    Raises:
        DataError: There are no pairs.
        EnvConfigError: The policy is frozen.
    """

    algorithm: ClassVar[str] = "dpo"

    def __init__(
        self,
        policy_env: LLMEnvironment,
        preference_dataset: Sequence[PreferencePair],
        config: ExperimentConfig | None = None,
    ) -> None:
        self.dataset = PreferenceDataset(preference_dataset)
        if not self.dataset:
            raise DataError("preference_dataset must contain one or more pairs, got none")
        super().__init__(policy_env, (), config)

    def prepare(self, config: ExperimentConfig, folder: Path) -> ExperimentConfig:
        """Write the pairs into the run's folder."""
        path = folder / "data" / "preferences.jsonl"
        if processes.is_main():
            self.dataset.to_json(path)
        settings: dict[str, Any] = {"data": str(path)}
        return config.replaced(dpo=config.dpo.replaced(**settings))
