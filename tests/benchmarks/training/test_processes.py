import subprocess
import sys

import pytest

from benchmarks.training import processes


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


@pytest.mark.parametrize("name", ["processes", "records", "demo_seeds", "adapter_memory"])
def test_what_measures_memory_takes_no_torch(name):
    # Linux counts the parent's memory at the fork into the child's peak.
    code = f"import sys, benchmarks.training.{name}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env=processes.environment())
