import subprocess
import sys

import pytest

from benchmarks.training.costs import children, processes


def test_a_process_is_measured_by_itself():
    small = processes.run([sys.executable, "-c", "print('hello')"])
    large = processes.run([sys.executable, "-c", "x = b'x' * 200_000_000; print(len(x))"])
    assert small.output == "hello\n"
    assert large.output == "200000000\n"
    # Not below what the parent had when it forked, which in a test process is a lot.
    assert large.peak_rss >= 200_000_000
    assert small.cpu > 0 and small.wall > 0


def test_a_failed_process_is_told_with_its_last_words():
    with pytest.raises(RuntimeError, match=r"(?s)exit code 3.*out of luck"):
        code = "import sys; print('out of luck', file=sys.stderr); sys.exit(3)"
        processes.run([sys.executable, "-c", code])


SETTINGS = {"environment.options": {"num_agents": 2, "max_cycles": 2}, "models.count": 2}


def test_a_function_is_called_by_its_name(small, monkeypatch, capsys):
    """In this process, which has loaded torch already."""

    def run(command):
        assert command[:3] == [sys.executable, "-m", children.__name__]
        children.main(command[3:])
        return processes.Cost(1.0, 1.0, 1, capsys.readouterr().out)

    monkeypatch.setattr(processes, "run", run)
    seconds, cost = processes.call("round_seconds", {**small().overrides, **SETTINGS})
    assert len(seconds["round"]) == 1 and seconds["round"][0] >= seconds["train"][0] > 0
    assert cost.peak_rss == 1


@pytest.mark.slow
def test_a_function_is_called_in_a_process_of_its_own(small):
    _, cost = processes.call("round_seconds", {**small().overrides, **SETTINGS})
    assert cost.peak_rss > 1e8


def test_what_measures_memory_takes_no_torch():
    # Linux counts the parent's memory at the fork into the child's peak.
    code = """if True:
        import sys
        from benchmarks.training import __main__, claims
        for name in ("demo_seeds", "adapter_memory", "scaling"):
            claims.load(name)
        assert "torch" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", code], check=True, env=processes.environment())
