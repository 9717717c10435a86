"""What trained models are asked that they have never seen: all of it played, and told in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from srl_agents.episode import Episode
from srl_agents.policy import Policy
from srl_agents.rollout import play_many
from srl_train.engine.rounds import RoundResult
from srl_train.trainer import MultiModelTrainer


class WatchedTrainer(MultiModelTrainer):
    """Keeps what was trained on, as the last info of each episode names it."""

    def __init__(self, *arguments: Any, named_by: str, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.met: set[str] = set()
        self._named_by = named_by

    def train_round(self) -> RoundResult:
        """The next round."""
        result = super().train_round()
        self.met.update(last_info(episode)[self._named_by] for episode in result.episodes)
        return result


def last_info(episode: Episode) -> Mapping[str, Any]:
    """What the first seat was told at the end."""
    return episode.turns[-1][0].info


def all_played(
    make: Callable[[], Any],
    seats: Mapping[str, Policy],
    seeds: Sequence[int],
    reset_options: Sequence[Mapping[str, Any]] | None = None,
) -> list[Episode]:
    """The episodes, as `play_many` plays them; raises RuntimeError where one failed."""
    episodes = play_many(make, seats, seeds, reset_options=reset_options)
    failed = [episode.failure for episode in episodes if episode.failure is not None]
    if failed:
        raise RuntimeError(f"{len(failed)} evaluation games failed; the first: {failed[0]}")
    return episodes


def share_in_words(share: float, error: float | None) -> str:
    """'88.0% ± 2.3%'; without the error where there is none."""
    return f"{share:.1%}" + ("" if error is None else f" ± {error:.1%}")
