import importlib
import inspect
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from pettingzoo import ParallelEnv

import srl_envs
from srl_envs import registry
from srl_envs.errors import EnvConfigError
from srl_envs.tables import PluginTable


def test_names_and_entries():
    assert srl_envs.names()[:2] == ("coop_compete_v0", "coop_compete_pair_v0")
    for name in registry.names():
        assert 0 < len(registry.entry(name).summary) < 100


@pytest.mark.parametrize("name", registry.names())
def test_make(name):
    env = srl_envs.make(name, max_cycles=7)
    assert isinstance(env, ParallelEnv) and env.max_cycles == 7
    assert env.metadata["name"] in registry.names()


def test_parameters_override_defaults():
    assert srl_envs.make("coop_compete_pair_v0").rules.variant == "pair"
    assert srl_envs.make("coop_compete_pair_v0", variant="population").rules.variant == "population"
    with pytest.raises(TypeError):
        registry.entry("coop_compete_pair_v0").defaults["num_agents"] = 3


@pytest.mark.parametrize(
    ("name", "parameters", "said"),
    [
        ("coop_compet_v0", {}, "no environment 'coop_compet_v0' (did you mean 'coop_compete_v0'?)"),
        (None, {}, "no environment None"),
        ("team_battle_v0", {"team_sizes": 3}, "'team_sizes' (did you mean 'team_size'?)"),
        (
            "coop_compete_v0",
            {"num_agents": -1},
            "num_agents must be a whole number from 1 to 10000",
        ),
        ("team_battle_v0", {"team_size": 10**12}, "a whole number from 1 to 10000, got 1000000"),
    ],
)
def test_wrong_names_raise_one_line(name, parameters, said):
    with pytest.raises(EnvConfigError) as caught:
        srl_envs.make(name, **parameters)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def run(code):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    ).stdout


def test_import_loads_no_torch_and_no_game():
    games = "('torch', 'srl_envs.games', 'srl_envs.tasks')"
    code = f"import sys, srl_envs; print(*(m for m in sys.modules if m.startswith({games})))"
    assert run(code).strip() == ""


def test_an_entry_is_imported_as_a_module_by_either_statement():
    code = (
        "import srl_envs.maze_race_v0, srl_envs.bandit_v0 as bandit_v0;"
        "from srl_envs import maze_race_v0;"
        "assert srl_envs.maze_race_v0 is maze_race_v0;"
        "print(len(maze_race_v0.parallel_env().possible_agents), bandit_v0.env())"
    )
    assert run(code).split() == ["2", "bandit_v0"]


@pytest.mark.parametrize("name", registry.names())
def test_the_documentation_names_every_parameter_and_field(name):
    module = importlib.import_module(registry.entry(name).module)
    docs = Path(__file__).parents[2] / "docs" / "environments"
    pages = ("games", "tasks", "tool_use", "debate")  # pages that describe parameters
    text = "".join((docs / f"{page}.md").read_text(encoding="utf-8") for page in pages)
    assert f"`{name}`" in (docs / "games.md").read_text(encoding="utf-8")
    parameters = inspect.signature(module.parallel_env).parameters
    for word in (name, *parameters, *getattr(module, "OBSERVATION_FIELDS", ())):
        assert f"`{word}`" in text


@pytest.mark.parametrize("name", registry.names())
def test_conversation_options_limit_max_cycles(name):
    env = registry.make(name, **registry.as_conversations(name, {})).unwrapped
    assert getattr(env, "max_cycles", 1) <= 200
    assert registry.as_conversations(name, {"max_cycles": 1000})["max_cycles"] == 1000


@pytest.mark.parametrize("made_by", ["parallel_env", "env", "raw_env"])
@pytest.mark.parametrize("name", ["maze_race_v0", "math_v0"])
def test_unknown_argument_raises_one_line_in_every_form(name, made_by):
    make = getattr(registry.as_module(name), made_by)
    with pytest.raises(EnvConfigError, match=r"no parameter 'obs_mod' \(did you mean 'obs_mode'"):
        make(obs_mod="vector")


def test_installed_packages_add_environments(monkeypatch):
    added = [metadata.EntryPoint("their_game_v0", "srl_envs.games.bandit:parallel_env", "")]
    monkeypatch.setattr(metadata, "entry_points", lambda group: added)
    table = PluginTable("core_srl.envs", registry.OWN)
    monkeypatch.setattr(registry, "ENVS", table)
    assert "their_game_v0" in registry.names()
    assert srl_envs.make("their_game_v0", num_agents=2).num_agents == 0
    assert srl_envs.their_game_v0.parallel_env().possible_agents == ["agent_0"]
