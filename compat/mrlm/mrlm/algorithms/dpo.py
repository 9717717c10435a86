"""DPO: direct preference optimisation (Rafailov et al. 2023), and its data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from mrlm.algorithms.trainer import PolicyTrainer
from mrlm.algorithms.training import Place
from mrlm.config.experiment import ExperimentConfig
from mrlm.core.environment import SimulatedEnvironment
from mrlm.core.language_model import LLMEnvironment
from mrlm.core.types import Message, MessageRole, Observation, Reward
from srl_agents.atomic_files import whole_file
from srl_envs.loading.untrusted import read_bytes, read_json
from srl_train.distributed import processes
from srl_train.errors import DataError


@dataclass(frozen=True)
class PreferencePair:
    """Two answers to one conversation, of which one is better."""

    prompt: Sequence[Message]
    """The conversation, which ends with what is to be answered."""
    chosen: str
    """The better answer."""
    rejected: str
    """The worse one."""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def line(self) -> dict[str, Any]:
        """In TRL's conversational format."""
        own = MessageRole.ENVIRONMENT  # which chat templates know as the user
        prompt = [
            {"role": "user" if m.role is own else str(m.role), "content": m.content}
            for m in self.prompt
        ]
        return {
            "prompt": prompt,
            "chosen": [{"role": "assistant", "content": self.chosen}],
            "rejected": [{"role": "assistant", "content": self.rejected}],
        }


class PreferenceDataset:
    """Pairs of answers. Raises DataError without any."""

    def __init__(self, pairs: Sequence[PreferencePair]) -> None:
        self.pairs = tuple(pairs)
        if not self.pairs:
            raise DataError("a preference dataset has no pairs: give one or more")

    def __len__(self) -> int:
        return len(self.pairs)

    def __iter__(self) -> Iterator[PreferencePair]:
        return iter(self.pairs)

    def __getitem__(self, place: int) -> PreferencePair:
        return self.pairs[place]

    def split(self, share: float = 0.9, seed: int = 0) -> tuple[Self, Self]:
        """Two datasets, the first with this share of the pairs, drawn by `seed`."""
        order = np.random.default_rng(seed).permutation(len(self.pairs))
        parts = np.split(order, [round(share * len(order))])
        first, second = (type(self)([self.pairs[int(n)] for n in part]) for part in parts)
        return first, second

    def to_json(self, path: str | Path) -> None:
        """Write the pairs to a file."""
        with whole_file(Path(path)) as file:
            json.dump({"pairs": [asdict(pair) for pair in self.pairs]}, file, indent=2)

    @classmethod
    def from_json(cls, path: str | Path) -> Self:
        """The pairs of a file; raises DataError for one that holds none."""
        try:
            rows = read_json(read_bytes(Path(path)))["pairs"]
            return cls(
                [
                    PreferencePair(
                        tuple(map(Message.from_dict, row["prompt"])),
                        row["chosen"],
                        row["rejected"],
                        row.get("metadata", {}),
                    )
                    for row in rows
                ]
            )
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise DataError(
                f'{path} is no file of preferences: give {{"pairs": [{{"prompt": [messages], '
                f'"chosen": text, "rejected": text}}, ...]}}'
            ) from error


class PreferredAnswers(SimulatedEnvironment):
    """Asks the prompts of preferences; the chosen answer, word for word, earns 1."""

    max_turns = 1

    def __init__(self, pairs: PreferenceDataset) -> None:
        self.pairs = pairs
        self._asked = pairs[0]

    def copy(self) -> SimulatedEnvironment:
        """Another with the same pairs."""
        return PreferredAnswers(self.pairs)

    def reset(self) -> Observation:
        """Ask a prompt."""
        self._asked = self.pairs[int(self.rng.integers(len(self.pairs)))]
        return Observation(list(self._asked.prompt))

    def step(self, action: Message) -> tuple[Observation, Reward]:
        """Compare the answer."""
        right = action.content.strip() == self._asked.chosen.strip()
        return Observation([*self._asked.prompt, action], done=True), Reward(float(right))

    def sample_answers(self, rng: np.random.Generator, count: int) -> Sequence[str]:
        """Answers of the pairs, better and worse ones alike."""
        said = sorted({answer for pair in self.pairs for answer in (pair.chosen, pair.rejected)})
        return [said[int(place)] for place in rng.permutation(len(said))[:count]]


class DPOTrainer(PolicyTrainer):
    """Trains the model of `policy_env`, in SERVER mode, on pairs of answers; an iteration is a pass
    over them. The reference is the model as training begins."""

    algorithm: ClassVar[str] = "dpo"

    def __init__(
        self,
        policy_env: LLMEnvironment,
        preference_dataset: PreferenceDataset | Sequence[PreferencePair],
        config: ExperimentConfig | None = None,
    ) -> None:
        """Raises EnvConfigError for a frozen policy, and DataError without pairs."""
        self.dataset = PreferenceDataset(tuple(preference_dataset))
        super().__init__(policy_env, [PreferredAnswers(self.dataset)], config)

    def data_in(self, place: Place) -> Path:
        """The file of pairs."""
        return pairs_in(place)

    def write_data(self, place: Place) -> None:
        """Write the pairs."""
        write_pairs(self.dataset, place)


def pairs_in(place: Place) -> Path:
    """The file in a run's folder that it learns from."""
    return place.data / "preferences.jsonl"


def write_pairs(pairs: PreferenceDataset, place: Place) -> None:
    """Write what a run learns from into its folder, by the main process."""
    if processes.is_main():
        with whole_file(pairs_in(place)) as file:
            file.writelines(json.dumps(pair.line()) + "\n" for pair in pairs)
