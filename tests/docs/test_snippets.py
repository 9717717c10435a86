"""Every snippet of the README and of docs/: programs run briefly, commands and YAML are parsed."""

import importlib.util
import itertools
import logging
import re
import shlex
import time
from pathlib import Path

import pytest

from benchmarks import claim as claims
from srl_envs.loading import read_yaml
from srl_train import cli
from srl_train.config import yaml_file

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OUTCOME = "0.7625 at random; 0.85 is best"
MOMENT = {
    "rounds": 1,
    "rollout__group_size": 2,
    "logging__evaluation_episodes": 2,
    "models__sampling__max_new_tokens": 4,
}
FRAMEWORKS = ("supersuit", "stable_baselines3", r"\bray\b", "torchrl", "tianshou", "classic/rps-v2")
"""Packages whose snippets run with `make test-interop` only."""
OPENENV = "srl_extensions.remote.openenv"
"""Module whose snippets run with `make test-openenv` only."""


def name_of(page):
    return page.relative_to(ROOT).as_posix()


def fenced(page, *languages):
    text = page.read_text(encoding="utf-8")
    return [code for kind, code in re.findall(r"^```(\w*)\n(.*?)^```", text, re.M | re.S)
            if kind in languages]  # fmt: skip


def programs():
    for page in PAGES:
        for number, code in enumerate(fenced(page, "python")):
            needs = re.search("|".join(FRAMEWORKS), code)
            # Warnings of the frameworks are ignored.
            others = [pytest.mark.interop, pytest.mark.filterwarnings("ignore")]
            marks = [pytest.mark.openenv] if OPENENV in code else others if needs else []
            yield pytest.param(code, id=f"{name_of(page)}-{number}", marks=marks)


@pytest.fixture
def another_second(monkeypatch):
    """Let time.strftime return another second at every call, because folders are named by it."""
    seconds, strftime = itertools.count(1), time.strftime

    def later(form, *moment):
        return strftime(form, *(moment or [time.localtime(next(seconds))]))

    monkeypatch.setattr(time, "strftime", later)


@pytest.mark.usefixtures("another_second")
@pytest.mark.parametrize("code", [*programs()])
def test_a_program_runs_by_itself_and_again_in_the_same_folder(
    code, tmp_path, monkeypatch, caplog, in_small, tiny_folder, one_model
):
    assert "TextTask(rows" not in code or len(re.findall(r"(?m)^.*\S", code)) <= 25
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "a key that no server sees")
    caplog.set_level(logging.ERROR)
    # All environments of the documented trainer have this option, and many steps.
    shorter = {"environment__options__max_cycles": 4} if "from core_srl" in code else {}
    in_small(**MOMENT, **shorter, models__base=tiny_folder)
    run(code)
    if any(tmp_path.iterdir()):
        run(code)


@pytest.mark.slow
def test_the_outcome_matches_the_documentation(tmp_path, monkeypatch, in_small):
    [code] = [one.values[0] for one in programs() if OUTCOME in one.values[0]]
    monkeypatch.chdir(tmp_path)
    in_small(logging__evaluation_episodes=32)
    evaluation = run(code)["results"]["evaluation"]
    assert evaluation["before"]["raw_reward"] == pytest.approx(0.7625, abs=0.01)
    assert evaluation["after"]["raw_reward"] > 0.82
    assert [*tmp_path.glob("runs/readme-*/metrics.jsonl")]


def run(code):
    names = {"__name__": "__main__"}
    exec(compile(code, "snippet", "exec", dont_inherit=True), names)
    return names


def commands():
    """Yield the words of each command line on a page, without comments."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        indented = [line[4:] for line in text.splitlines() if line.startswith("    ")]
        blocks = [block.replace("\\\n", " ") for block in fenced(page, "", "sh", "bash")]
        for line in (*indented, *"\n".join(blocks).splitlines()):
            words = []
            if re.match(r"\s*([A-Z_]+=\S* )*(srl|make|python -m|pip|torchrun) ", line):
                words = shlex.split(line, comments=True)
            while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                words = words[1:]
            if words:
                yield pytest.param(words, id=f"{name_of(page)}: {' '.join(words)}"[:120])


@pytest.mark.parametrize("words", [*commands()])
def test_a_command_is_there_and_takes_its_arguments(words):
    program, *arguments = words
    if "NAME" in " ".join(words):
        pytest.skip("NAME is a placeholder for several commands")
    if program == "srl":
        assert arguments[0] in cli.COMMANDS
        cli._parser(arguments[0]).parse_args(arguments)
    elif program == "make":
        assert re.search(rf"^{arguments[0]}:", (ROOT / "Makefile").read_text(), re.M)
    elif program == "python":
        assert importlib.util.find_spec(arguments[1]) is not None
        if arguments[1] == "benchmarks.training":
            assert arguments[2] in claims.names()
    elif program == "pip":
        install, *packages = arguments
        assert install == "install"
        ours = [package for package in packages if "core-srl" in package]
        assert not ours, f"{ours}: core-srl is on no index; give its folder, as in '-e .'"
    for word in words:
        if word.startswith(("examples/", "docs/", "constraints")):
            assert (ROOT / word).exists(), f"{word} is not there"


def configurations():
    for page in PAGES:
        for number, text in enumerate(fenced(page, "yaml")):
            yield pytest.param(text, id=f"{name_of(page)}-{number}")


@pytest.mark.parametrize("text", [*configurations()])
def test_a_configuration_is_read(text):
    yaml_file.from_tree(read_yaml(text))


def test_snippets_are_found():
    assert len(list(programs())) > 25 and len(list(commands())) > 50
    assert len(list(configurations())) > 4
    assert sum(OUTCOME in program.values[0] for program in programs()) == 1
