import pytest
import torch

from benchmarks import rollout_speed
from benchmarks.records import Repeats


@pytest.mark.slow
def test_every_variant_is_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CORE_SRL_CACHE", str(tmp_path))
    threads = torch.get_num_threads()
    try:
        rollout_speed.main(["--episodes", "2", "--turns", "2", "--repeats", "1"])
    finally:
        torch.set_num_threads(threads)
    lines = [line for line in capsys.readouterr().out.splitlines() if "4 " in line[:4]]
    references = [line for line in lines if rollout_speed.REFERENCE in line]
    assert len(lines) == 6 and [line.split()[-2] for line in references] == ["1.00", "1.00"]


@pytest.mark.parametrize(("kept", "held"), [(0.4, True), (0.41, False)])
def test_target_can_be_missed(kept, held):
    models = rollout_speed.MODELS
    seconds = {
        (models, rollout_speed.REFERENCE): Repeats([1.0]),
        (models, rollout_speed.KEPT): Repeats([kept]),
    }
    _, checks = rollout_speed.tables(seconds, 10)
    assert [check.held for check in checks] == [held]
