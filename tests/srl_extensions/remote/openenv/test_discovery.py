"""Our games by the name under which OpenEnv finds them, and OpenEnv's own checks of them."""

import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from openenv import AutoAction, AutoEnv
from openenv.auto._discovery import reset_discovery
from openenv.cli.__main__ import app as command
from openenv.cli._validation import validate_running_environment
from typer.testing import CliRunner

from srl_envs import make
from srl_envs.text import TextEnv
from srl_extensions.remote.openenv_server import in_background

FOLDER = Path(__file__).parents[4] / "compat" / "core_srl_env"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install the distribution's metadata and package as pip does."""
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text())["project"]
    metadata = tmp_path / f"openenv_core_srl_env-{project['version']}.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    monkeypatch.syspath_prepend(str(FOLDER.parent))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    reset_discovery()
    yield
    reset_discovery()
    for name in [name for name in sys.modules if name.partition(".")[0] == "core_srl_env"]:
        del sys.modules[name]


@pytest.fixture
def url(installed):
    from core_srl_env.server.app import app

    with in_background(app) as address:
        yield address


def test_openenv_finds_and_plays_the_package(url, capsys):
    AutoEnv.list_environments()
    assert "core_srl " in capsys.readouterr().out
    answers = AutoAction.from_env("core-srl")
    local = TextEnv(make("coop_compete_pair_v0"))
    texts, _ = local.reset(seed=3)
    with AutoEnv.from_env("core-srl", base_url=url) as game:
        seen = game.reset(seed=3, environment="coop_compete_pair_v0").observation
        assert seen.observations == texts and seen.agents == local.agents
        said = {"agent_0": "cooperate", "agent_1": "compete"}
        result = game.step(answers(actions=said))
        texts, rewards, *_ = local.step(said)
        assert result.observation.observations == texts and not result.done
        assert result.observation.rewards == rewards and result.reward == sum(rewards.values())
        assert game.state().environment == "coop_compete_pair_v0"


def test_running_server_is_valid(url):
    report = validate_running_environment(url)
    assert report["passed"], report["summary"]


def test_manifest_is_valid_and_correct():
    words = ["validate", str(FOLDER), "--level", "static", "--skip-build"]
    done = CliRunner().invoke(command, words)
    assert done.exit_code == 0, done.output
    assert "PASS  static.manifest" in done.output


def test_declared_range_is_that_of_the_first_game(url):
    declared = yaml.safe_load((FOLDER / "openenv.yaml").read_text(encoding="utf-8"))
    low, high = declared["validation"]["reward"]["range"]
    answers = AutoAction.from_env("core-srl")
    with AutoEnv.from_env("core-srl", base_url=url) as game:
        for seed in range(20):
            result = game.reset(seed=seed)
            while not result.done:
                result = game.step(answers(actions={"agent_0": "7"}))
                assert low <= result.reward <= high
        assert game.state().environment == "math_v0"
