"""Progress of the offline stages, as saved in checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from srl_train.config.learning.offline import OfflineConfig
from srl_train.config.run import RunConfig
from srl_train.errors import ConfigError

ORDER = ("sft", "dpo")
"""Sections of a configuration that are stages, in the order of execution."""


def planned(config: RunConfig) -> dict[str, OfflineConfig]:
    """Return the configured stages with their sections, in order."""
    sections: dict[str, OfflineConfig | None] = {"sft": config.sft, "dpo": config.dpo}
    return {name: found for name in ORDER if (found := sections[name]) is not None}


@dataclass
class StageProgress:
    """Finished stages and the current one."""

    reports: list[dict[str, Any]] = field(default_factory=list)
    """Reports of finished stages."""
    open: Any = None
    """Current stage, while its learners exist."""
    saved: Mapping[str, Any] | None = None
    """State of a current stage without learners: read from a checkpoint, or stopped."""

    @property
    def passes(self) -> int:
        """Number of passes over data in all stages."""
        under_way = self.open.passes if self.open else (self.saved or {}).get("passes", 0)
        finished: int = sum(report["passes"] for report in self.reports)
        return finished + int(under_way)

    def left(self, config: RunConfig) -> tuple[str, ...]:
        """Return the stages that are not finished, in order."""
        return tuple(planned(config))[len(self.reports) :]

    def refuse_missing_files(self, config: RunConfig) -> None:
        """Raise ConfigError if a data file of an unfinished stage does not exist."""
        sections = planned(config)
        for name in self.left(config):
            for path in sections[name].data:
                if not Path(path).is_file():
                    raise ConfigError(f"{name}.data: there is no file {path}")

    def state(self) -> dict[str, Any]:
        """Return plain data and tensors for a checkpoint."""
        under_way = self.open.state() if self.open else self.saved
        return {"reports": list(self.reports), "under_way": under_way}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore a result of `state`."""
        self.reports, self.saved = list(state["reports"]), state["under_way"]
