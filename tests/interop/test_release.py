"""Wheel and sdist in clean environments of the interpreters that RELEASE_PYTHONS names."""

import os
import re
import resource
import subprocess
from pathlib import Path

import pytest

from srl_train.cli import COMMANDS

pytestmark = pytest.mark.release
ROOT = Path(__file__).parents[2]
PYTHONS = os.environ.get("RELEASE_PYTHONS", "python3.11 python3.12 python3.13").split()
TWENTY_LINES = 120  # CPU-seconds, at most
NEEDS = {
    "train": "import srl_agents.llm.tiny",
    "render": "from srl_envs import make\n"
    "game = make('coop_compete_v0', render_mode='rgb_array')\ngame.reset(seed=0)\ngame.render()",
    "tasks": "from srl_envs import make\nmake('tool_use_v0').reset(seed=0)",
    "openenv": "import srl_extensions.remote.openenv_client",
    "verl": "import srl_extensions.bridges.verl",
    "areal": "import srl_extensions.bridges.areal",
    "verifiers": "import srl_extensions.bridges.verifiers",
    "grpc": "from srl_extensions.remote import remote\nremote('127.0.0.1:1', 'maze_v0')",
    "openai": "from srl_agents.llm.backends.registry import api_model\napi_model('openai:m')",
    "anthropic": "from srl_agents.llm.backends.registry import api_model\napi_model('anthropic:m')",
}
"""Extra -> what cannot be done without it."""


def run(*command, **options):
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.run(
        [str(word) for word in command],
        capture_output=True, text=True, check=False, env=environment, **options,
    )  # fmt: skip


def done(*command, **options):
    told = run(*command, **options)
    assert told.returncode == 0, told.stdout + told.stderr
    return told.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder of the wheel and the sdist."""
    folder = tmp_path_factory.mktemp("release")
    done(PYTHONS[0], "-m", "venv", folder / "build")
    done(folder / "build/bin/pip", "install", "--quiet", "hatchling")
    done(folder / "build/bin/python", "-m", "hatchling", "build", "-d", folder, cwd=ROOT)
    return folder


@pytest.fixture(scope="module", params=PYTHONS)
def installed(request, built, tmp_path_factory):
    """The programs of a clean environment that has the wheel and its base requirements."""
    try:
        found = run(request.param, "-c", "").returncode == 0
    except FileNotFoundError:
        found = False
    if not found:
        pytest.skip(f"{request.param} is not on this machine")
    folder = tmp_path_factory.mktemp("clean")
    done(request.param, "-m", "venv", folder)
    [wheel] = built.glob("*.whl")
    done(folder / "bin/pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel)
    return folder / "bin"


def test_every_command_tells_what_it_takes(installed, tmp_path):
    for command in COMMANDS:
        assert f"srl {command}" in done(installed / "srl", command, "--help", cwd=tmp_path)
    assert "0.1.0" in done(installed / "srl", "--version", cwd=tmp_path)
    told = run(installed / "srl", "doctor", cwd=tmp_path)
    assert told.returncode == 1 and 'pip install "core-srl[train]"' in told.stdout


def test_the_base_plays_games(installed, tmp_path):
    game = ("--environment", "coop_compete_pair_v0", "--episodes", "2")
    done(installed / "srl", "eval", "--policy", "tit_for_tat", *game, cwd=tmp_path)


@pytest.mark.parametrize("extra", NEEDS)
def test_missing_packages_name_the_install_command(installed, extra, tmp_path):
    told = run(installed / "python", "-c", NEEDS[extra], cwd=tmp_path)
    assert told.returncode == 1
    assert told.stderr.splitlines()[-1].endswith(f': pip install "core-srl[{extra}]"')


def test_the_twenty_lines_of_the_readme_run_in_two_minutes(built, tmp_path):
    done(PYTHONS[0], "-m", "venv", tmp_path / "venv")
    [wheel] = built.glob("*.whl")
    index = ["--extra-index-url", os.environ["TORCH_INDEX"]] if "TORCH_INDEX" in os.environ else []
    pip = (tmp_path / "venv/bin/pip", "install", "--quiet", "-c", ROOT / "constraints.txt")
    done(*pip, *index, f"{wheel}[train]")
    [code] = re.findall(
        r"## Twenty lines\n\n```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S
    )
    (tmp_path / "twenty.py").write_text(code)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    told = done(tmp_path / "venv/bin/python", "twenty.py", cwd=tmp_path)
    since = resource.getrusage(resource.RUSAGE_CHILDREN)
    # CPU time, not wall time: other programs may keep the machine busy.
    assert since.ru_utime + since.ru_stime - spent.ru_utime - spent.ru_stime < TWENTY_LINES
    before, after = (float(told.split(when)[1].split()[0]) for when in ("before", "after"))
    assert before < 0.78 < 0.82 < after
