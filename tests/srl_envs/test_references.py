"""Records of others lead to no code, no file and no folder, and to no huge environment."""

import inspect
import re
import sys
from importlib import import_module
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from srl_envs import loading, registry
from srl_envs.errors import EnvError, UntrustedError

CODE = "a_module_of_others:make"
every_name = pytest.mark.parametrize("name", registry.names())


def options(name):
    """Return the names of the options of a game."""
    making = import_module(registry.entry(name).module).parallel_env
    own = inspect.signature(making).parameters
    return [each for each in own if each not in ("parameters", "render_mode", "obs_mode")]


@pytest.fixture
def others(tmp_path, monkeypatch):
    """Create a module, a file and a folder whose use is recorded."""
    (tmp_path / "a_module_of_others.py").write_text("def make(**_):\n    raise SystemExit\n")
    (tmp_path / "file.jsonl").write_text('{"question": "1", "answer": "#### 1"}\n')
    (tmp_path / "folder").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    _opened.clear()
    yield tmp_path
    sys.modules.pop("a_module_of_others", None)


_opened: list[str] = []
_watching = False


def _watch(event, arguments):
    if _watching and event in ("open", "socket.connect", "os.listdir", "os.mkdir"):
        _opened.append(str(arguments[0]))


@pytest.fixture(scope="module", autouse=True)
def watched():
    global _watching
    sys.addaudithook(_watch)  # Audit hooks cannot be removed.
    _watching = True
    yield
    _watching = False


def reached(others):
    there = [path for path in _opened if path.startswith(f"{others}/")]
    return [*there, *(name for name in sys.modules if name == "a_module_of_others")]


@every_name
def test_record_options_open_no_code_file_or_folder(others, name):
    names = [CODE, str(others / "file.jsonl"), str(others / "folder"), {"x": {"name": CODE}}]
    for option, value in product(options(name), names):
        _opened.clear()
        try:
            env = registry.remake(name, {option: value})
            env.reset(seed=1)
            env.step({agent: env.action_space(agent).sample() for agent in env.agents})
        except (EnvError, ValueError, TypeError, AttributeError):
            pass
        assert not reached(others), (option, value)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        (CODE, {}, "'a_module_of_others:make' is code that a record names"),
        ("debate_v0", {"judge": CODE}, "'judge: a_module_of_others:make' is code"),
        ("multitask_v0", {"environments": {"a": {"name": CODE}}}, "is code"),
        (
            "multitask_v0",
            {"environments": {"a": {"name": "debate_v0", "options": {"judge": CODE}}}},
            "'judge: a_module_of_others:make' is code",
        ),
        ("debate_v0", {"topics": "/etc/passwd"}, "topics: '/etc/passwd' is a place"),
        ("math_v0", {"path": "/etc/passwd"}, "path: '/etc/passwd' is a place on this machine"),
        ("code_v0", {"path": "/etc/passwd"}, "path: '/etc/passwd'"),
        ("code_v0", {"wall": 1e6}, "wall must be at most 60 in a record, got 1e+06"),
        ("coop_compete_v0", {"num_agents": 3_000_000}, "at most 1000, got 3e+06"),
        ("team_battle_v0", {"team_size": [900, 900]}, "at most 1000"),
        ("maze_v0", {"width": 2001, "height": 2001}, "at most 1000"),
        (
            "multitask_v0",
            {"environments": {str(i): {"name": "math_v0"} for i in range(900)}},
            "at most 1000",
        ),
    ],
)
def test_untrusted_record_error_names_the_option(others, name, options, said):
    with pytest.raises(UntrustedError, match=re.escape(said)) as refused:
        registry.remake(name, options)
    assert "give --trust (trusted=True)" in str(refused.value)
    assert not reached(others)


def test_long_games_and_large_seeds_do_not_count_as_size():
    env = registry.remake("math_v0", {"max_cycles": 10**9, "problem_seed": 2**40})
    assert env.max_cycles == 10**9


def test_trusted_record_may_name_code_and_files(tmp_path, monkeypatch):
    (tmp_path / "my_motions.py").write_text(
        "from srl_envs.tasks.debate import RuleJudge\n\ndef judge():\n    return RuleJudge()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    topics = tmp_path / "topics.jsonl"
    topics.write_text('"Tea is better than coffee."\n')
    options = {"judge": "my_motions:judge", "topics": str(topics)}
    assert registry.remake("debate_v0", options, trusted=True).topics == (
        "Tea is better than coffee.",
    )
    again = registry.remake("srl_envs.games.bandit:parallel_env", {}, trusted=True)
    assert again.metadata["name"] == "bandit_v0"


def test_records_cannot_lower_sandbox_protection(monkeypatch):
    asked = []

    def sandbox(limits, minimum):
        asked.append(minimum)
        raise UntrustedError("enough")

    monkeypatch.setattr("srl_envs.tasks.programming.shared_sandbox", sandbox)
    for level in ("limits", "filtered", "strict"):
        for trusted in (False, True):
            with pytest.raises(UntrustedError, match="enough"):
                registry.remake("code_v0", {"sandbox_minimum": level}, trusted=trusted)
    assert asked[::2] == ["filtered", "filtered", "strict"]
    assert asked[1::2] == ["limits", "filtered", "strict"]


def test_only_loading_imports_by_name():
    fixed = {"scenarios.py", "tables.py"}  # names in our own tables
    folder = Path(loading.__file__).parent
    importing = {
        path.name
        for path in folder.rglob("*.py")
        if re.search(r"import_module\(|resolve_name\(|__import__\(|exec_module\(", path.read_text())
        and "sandbox" not in path.parts  # which runs untrusted code by design
    }
    assert importing == {"loading.py", *fixed}


ODD = [
    None, True, -1, 0.5, 10**400, "", "abc", "\0", [], [None], [[]], {}, {"a": 1}, {1: 2}, (1, 2),
    {"a": {"name": "math_v0", "options": [1]}}, {"a": {"name": "math_v0", "options": "abc"}},
    [{"question": "1", "answer": "1"}], np.int64(5), np.float32(0.5), np.array(5), np.array([]),
    np.array([1, 2]), np.array(["a"]),
]  # fmt: skip


@every_name
def test_odd_option_values_raise_only_env_errors(name):
    for option, value in product(options(name), ODD):
        try:
            env = registry.remake(name, {option: value})
            env.reset(seed=1)
            env.step({agent: env.action_space(agent).sample() for agent in env.agents})
        except EnvError:
            pass
        except Exception as error:
            error.add_note(f"{option}: {value!r}")
            raise
