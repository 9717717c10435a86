"""Commands with the user policy of docs/agents/own_opponent.md."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from srl_train import cli
from srl_train.config.yaml_file import dump

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "agents" / "own_opponent.md").read_text(encoding="utf-8")
OWN = "mybot:Sticky"
PAIR = "coop_compete_pair_v0"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Change to a folder that contains mybot.py of the page."""
    [code] = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
    (tmp_path / "mybot.py").write_text(code)
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one != ""])
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("mybot", None)


@pytest.mark.parametrize(
    "words",
    [
        f"eval --scenario {PAIR}.pavlov --policy {OWN} --background {OWN} --episodes 2",
        f"collect --environment {PAIR} --players {OWN} --episodes 2 --out games.jsonl",
        f"play {PAIR} --opponent {OWN} --set max_cycles=1",
    ],
)
def test_commands_accept_a_user_policy_by_name(words, here, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("cooperate\n"))
    assert srl(words) == 0
    assert re.search(OWN if words.startswith("eval") else "Sticky|written", shown(capsys))


def test_untrusted_run_imports_no_policy(here, short_run, tiny_folder, capsys):
    run = here / "run"
    (run / "models").mkdir(parents=True)
    (run / "models" / "model_0").symlink_to(tiny_folder)
    (run / "config.yaml").write_text(dump(short_run(models__count=1, seats={"agent_1": OWN})))
    assert srl("collect run --episodes 1 --out games.jsonl") == 2
    assert f"gives agent_1 to {OWN}, which is not in that run" in shown(capsys)
    assert "mybot" not in sys.modules
    assert srl("collect run --episodes 1 --out games.jsonl --trust") == 0


def test_cross_play_of_scripted_policies_requires_no_extra(here):
    heavy = ("pydantic", "torch", "transformers", "rich")
    words = f"crossplay uniform {OWN} --environment {PAIR} --set max_cycles=2 --episodes 2".split()
    script = (
        f"import sys; sys.modules.update(dict.fromkeys({heavy!r}))\n"
        f"from srl_train import cli; sys.exit(cli.main({words!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "alpha-rank" in done.stdout


def srl(words):
    return cli.main(words.split())


def shown(capsys):
    printed = capsys.readouterr()
    return printed.out + printed.err
