"""Progress of the offline stages, as it is kept in checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srl_train.config.learning.offline import OfflineConfig
from srl_train.config.run import RunConfig
from srl_train.errors import ConfigError

if TYPE_CHECKING:
    from srl_train.engine.offline.stage import Stage

ORDER = ("sft", "dpo")
"""The sections of a configuration that are stages, as they follow each other."""


def planned(config: RunConfig) -> dict[str, OfflineConfig]:
    """Stage -> its section, for those that are configured, in order."""
    sections: dict[str, OfflineConfig | None] = {"sft": config.sft, "dpo": config.dpo}
    return {name: found for name in ORDER if (found := sections[name]) is not None}


@dataclass
class StageProgress:
    """Finished stages, and the one under way."""

    reports: list[dict[str, Any]] = field(default_factory=list)
    """What each finished stage did."""
    open: Stage | None = None
    """The stage under way, while its learners are built."""
    saved: Mapping[str, Any] | None = None
    """The state of a stage under way that is not open: read from a checkpoint, or stopped."""

    @property
    def passes(self) -> int:
        """Passes over data so far, in all stages."""
        under_way = self.open.passes if self.open else (self.saved or {}).get("passes", 0)
        finished: int = sum(report["passes"] for report in self.reports)
        return finished + int(under_way)

    def left(self, config: RunConfig) -> tuple[str, ...]:
        """The stages that are not finished, in order."""
        return tuple(planned(config))[len(self.reports) :]

    def refuse_missing_files(self, config: RunConfig) -> None:
        """Raise ConfigError where the files of a stage that is left are not there."""
        sections = planned(config)
        for name in self.left(config):
            for path in sections[name].data:
                if not Path(path).is_file():
                    raise ConfigError(f"{name}.data: there is no file {path}")

    def state(self) -> dict[str, Any]:
        """Plain data and tensors for a checkpoint."""
        under_way = self.open.state() if self.open else self.saved
        return {"reports": list(self.reports), "under_way": under_way}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` gave."""
        self.reports, self.saved = list(state["reports"]), state["under_way"]
