"""A run whose games fail says how many, of what, and what is not learned from."""

import logging

from srl_envs.errors import EnvError
from srl_envs.games.coop_compete import CoopCompete
from srl_train.metrics import read_metrics
from srl_train.metrics.run_folder import load
from srl_train.trainer import Trainer


class Breaks(CoopCompete):
    """A game of which the fourth that is made breaks, whenever it is played."""

    made = 0

    def __init__(self):
        super().__init__(variant="pair", max_cycles=2)
        Breaks.made += 1
        self.broken = Breaks.made == 4

    def step(self, actions):
        if self.broken:
            raise EnvError("\x1b[31mno\nservice " + "x" * 1000)
        return super().step(actions)


def test_failed_games_are_told_once_with_their_cause(short_run, tmp_path, caplog, monkeypatch):
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(Breaks, "made", 0)
    config = short_run(rollout__groups_per_round=2, max_failed_fraction=1.0)
    Trainer(config, tmp_path, make_env=Breaks).fit()
    rows = read_metrics(tmp_path / "metrics.jsonl")
    failed, left = (rows[0]["environment"][f"{kind}_episodes"] for kind in ("failed", "left_out"))
    assert 0 < failed < left
    [told] = [one.message for one in caplog.records if "failed" in one.message]
    start = f"{failed} of 8 games failed ({left} are not learned from: these, and those compared "
    assert told.startswith(start + "with them); the first: EnvError: \\x1b[31mno\\nservice xxx")
    assert told.endswith("x ...") and len(told) < 450
    assert load(tmp_path).warnings == (told,)
    assert [told in row.get("warnings", []) for row in rows] == [True] + [False] * (len(rows) - 1)
