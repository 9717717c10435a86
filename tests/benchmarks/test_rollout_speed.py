import json

import pytest
import torch

from benchmarks import rollout_speed
from srl_agents.errors import BackendError


def test_it_measures_every_way_and_keeps_the_numbers(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CORE_SRL_CACHE", str(tmp_path))
    threads = torch.get_num_threads()
    try:
        rollout_speed.main(
            [
                "--episodes",
                "2",
                "--turns",
                "2",
                "--repeats",
                "1",
                "--json",
                str(tmp_path / "r.json"),
            ]
        )
    finally:
        torch.set_num_threads(threads)
    table = capsys.readouterr().out.splitlines()[2:]
    assert len(table) == 1 + 6
    references = [line for line in table if rollout_speed.REFERENCE in line]
    assert [line.split()[-1] for line in references] == ["1.00", "1.00"]
    record = json.loads((tmp_path / "r.json").read_text())
    assert len(record["cpu_seconds"]) == 6
    assert all(len(values) == 1 for values in record["cpu_seconds"].values())


def test_a_spoilt_episode_is_no_measurement():
    class Broken:
        name = "broken"

        def start(self, seed):
            return None

        def act(self, seen, states):
            raise BackendError("no")

    make_env = rollout_speed.game(turns=2)
    seats = dict.fromkeys(rollout_speed.SEATS, Broken())
    with pytest.raises(SystemExit, match="BackendError: no"):
        rollout_speed.measure(make_env, {("x", "y"): seats}, episodes=1, repeats=1)
