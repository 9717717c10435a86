import json
import math

from srl_train.run_files import RunFiles
from srl_train.trainer import Trainer


def test_a_sink_that_watches_gets_all_games_and_evaluations(short_run, tmp_path):
    class Kept:
        def __init__(self):
            self.got = []

        def write(self, row):
            self.got.append(("row", row["round"]))

        def write_episodes(self, round_number, episodes):
            self.got.append((round_number, len(episodes), len(episodes[0].turns)))

        def write_evaluation(self, when, measured):
            self.got.append((when, measured["episodes"]))

        def close(self):
            self.got.append("closed")

    kept, config = Kept(), short_run(logging={"evaluation_episodes": 3, "episodes": 0})
    Trainer(config, tmp_path, sinks=(kept,)).fit()
    assert kept.got == [
        ("before", 3), ("row", 0), (0, 4, 2), ("row", 1), (1, 4, 2), "closed", ("after", 3)
    ]  # fmt: skip


def test_a_summary_is_json_whatever_was_measured(tmp_path):
    RunFiles(tmp_path, tmp_path).write_summary({"evaluation": {"before": {"error": math.nan}}})
    text = (tmp_path / "summary.json").read_text()
    assert json.loads(text, parse_constant=str) == {"evaluation": {"before": {"error": None}}}
