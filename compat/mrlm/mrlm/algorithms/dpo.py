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
from mrlm.core.types import Message
from srl_agents.atomic_files import whole_file
from srl_train import processes
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
        """Return {"prompt", "chosen", "rejected"}: TRL's messages; "environment" becomes "user"."""
        answers = {"chosen": self.chosen, "rejected": self.rejected}
        return {
            "prompt": [
                {"role": "user" if m.role == "environment" else m.role, "content": m.content}
                for m in self.prompt
            ],
            **{name: [{"role": "assistant", "content": text}] for name, text in answers.items()},
        }


class PreferenceDataset(tuple[PreferencePair, ...]):
    """Immutable sequence of preference pairs."""

    def to_json(self, path: str | Path) -> None:
        """Write a line of JSON per pair, for `dpo.data` and TRL; create folders, replace a file."""
        with whole_file(Path(path)) as file:
            file.writelines(json.dumps(pair.row()) + "\n" for pair in self)


class DPOTrainer(PolicyTrainer):
    """Trainer with DPO on pairs of answers; an iteration is a pass over the pairs.

    The reference is the model at the start of training. `config.dpo.data` is ignored.

    Args:
        policy_env: Policy in SERVER mode.
        preference_dataset: One or more pairs.
        config: Settings of the experiment; None selects the defaults.

    Raises:
        DataError: There are no pairs.
        EnvConfigError: The policy is in CLIENT mode.
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
        config = config or ExperimentConfig()
        self._path = Path(f"{config.output_dir or 'outputs/dpo'}_preferences.jsonl")
        config = config.replaced(dpo=config.dpo.replaced(data=str(self._path)))
        super().__init__(policy_env, (), config)

    def train(self, num_iterations: int | None = None) -> dict[str, Any]:
        """Write the pairs to FOLDER_preferences.jsonl, then train as PolicyTrainer.train.

        FOLDER is `config.output_dir` or outputs/dpo. Only the main process writes the pairs.
        """
        if processes.is_main():
            self.dataset.to_json(self._path)
        return super().train(num_iterations)
