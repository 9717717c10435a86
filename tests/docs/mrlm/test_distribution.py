"""The distribution: its examples, its documented arguments, and its wheel."""

import importlib
import os
import re
import runpy
import subprocess
import sys
import tomllib
import zipfile

import pytest

from tests.docs.mrlm.conftest import SOURCES

ROOT = SOURCES.parents[1]
EXAMPLES = (
    "quickstart/simple_ppo.py", "train_code_ppo.py", "train_math_ppo.py", "train_grpo_math.py",
    "train_dpo_preferences.py", "train_sft_world_model.py", "train_tool_use_ppo.py",
    "train_distributed_ppo.py", "train_multi_environment.py", "train_hybrid_sft_ppo.py",
    "train_from_config.py",
)  # fmt: skip
"""Names of the documented examples."""
FEW = ["--iterations", "1", "--episodes", "8"]


def test_the_documented_examples_are_there_and_listed():
    index = (SOURCES / "examples/README.md").read_text(encoding="utf-8")
    assert all(
        (SOURCES / "examples" / name).is_file() and f"`{name}`" in index for name in EXAMPLES
    )
    assert all(f"`{path.name}`" in index for path in (SOURCES / "configs").glob("*"))


NAMES = tomllib.loads((SOURCES / "names.toml").read_text(encoding="utf-8"))["mrlm"]


@pytest.mark.parametrize("row", NAMES, ids=[row["name"] for row in NAMES])
def test_every_documented_name_is_there(row):
    module, _, attribute = row["place"].partition(":")
    assert callable(getattr(importlib.import_module(module), attribute))
    assert row["does"] and {*row} == {"name", "place", "does", "differs"}


def test_the_names_are_those_of_the_documentation():
    code = (SOURCES.parents[1] / "tests/docs/mrlm/snippets.md").read_text(encoding="utf-8")
    told = {row["name"] for row in NAMES}
    imported = re.findall(r"^from (mrlm[\w.]*) import (.+)$", code, re.MULTILINE)
    names = {f"{module}.{one.strip()}" for module, some in imported for one in some.split(",")}
    assert names <= told
    assert {f"mrlm {word}" for word in re.findall(r"^mrlm (\w+)", code, re.MULTILINE)} <= told


def run_example(monkeypatch, name, *words):
    monkeypatch.syspath_prepend(str(SOURCES / "examples"))
    monkeypatch.setattr(sys, "argv", [name, *words])
    runpy.run_path(str(SOURCES / "examples" / name), run_name="__main__")


def test_an_example_trains(workplace, monkeypatch, capsys):
    run_example(monkeypatch, "train_dpo_preferences.py", *FEW)
    assert "loss: " in capsys.readouterr().out
    assert (workplace / "outputs/dpo/final/config.json").is_file()
    assert (workplace / "data/preferences.jsonl").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in EXAMPLES if n != "train_from_config.py"])
def test_every_example_trains(workplace, monkeypatch, capsys, name):
    few = FEW[:2] if "simple" in name else FEW
    run_example(monkeypatch, name, *few, "--episodes", "8")
    assert ("loss: " if "dpo" in name else "before: reward") in capsys.readouterr().out
    assert list((workplace / "outputs").glob("**/final"))


@pytest.mark.slow
def test_the_wheel_is_installed_by_pip(tmp_path):
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", str(tmp_path), str(SOURCES)]
    subprocess.run(build, check=True, capture_output=True)
    [wheel] = tmp_path.glob("mrlm-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "mrlm/py.typed" in names and "mrlm/environments/tools/builtin_tools.py" in names
    place = tmp_path / "installed"
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--target", str(place)]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True)
    told = subprocess.run(
        [place / "bin" / "mrlm", "--help"], check=True, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": f"{place}:{ROOT}"},
    )  # fmt: skip
    assert told.stdout.startswith("usage: mrlm")
