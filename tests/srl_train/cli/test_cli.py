import argparse
import importlib
import os
import subprocess
import sys
import types

import pytest

from srl_envs.loading import EXTRAS
from srl_train import cli
from srl_train.cli import info
from srl_train.errors import ConfigError
from srl_train.modes import MODES
from srl_train.updates import STRATEGIES
from tests.srl_extensions.pages.synthetic_runs import write_run


@pytest.fixture
def command(monkeypatch):
    """Replaces `srl train` by a command that does what the test says."""

    def install(run):
        module = types.ModuleType("srl_train.cli.train")
        module.add_arguments = lambda parser: parser.add_argument("config")
        module.run = run
        monkeypatch.setitem(sys.modules, "srl_train.cli.train", module)

    return install


def test_without_a_command_the_help_is_shown(capsys):
    assert cli.main([]) == 0
    assert set(cli.COMMANDS) <= set(capsys.readouterr().out.split())


def test_every_command_has_its_module():
    for name in cli.COMMANDS:
        module = cli.COMMANDS.load(name)
        module.add_arguments(argparse.ArgumentParser())
        assert callable(module.run)


def test_a_refused_argument_sends_no_escapes_to_the_terminal(capsys):
    with pytest.raises(SystemExit):
        cli.main(["info", "\x1b[2J\u202e"])
    assert capsys.readouterr().err.endswith("unrecognized arguments: \\x1b[2J\\u202e\n")


def test_our_errors_are_one_line_and_code_2(command, capsys):
    def refuse(args):
        raise ConfigError(f"{args.config} is\nnot right")

    command(refuse)
    assert cli.main(["train", "x.yaml"]) == 2
    assert capsys.readouterr().err == "srl: error: x.yaml is not right\n"


@pytest.mark.parametrize("missing", ["torch", "srl_nothing"])
def test_a_missing_extra_is_named(command, capsys, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    command(lambda args: importlib.import_module(missing))
    if missing in EXTRAS:
        assert cli.main(["train", "x.yaml"]) == 2
        assert 'pip install "core-srl[train]"' in capsys.readouterr().err
    else:
        with pytest.raises(ModuleNotFoundError):
            cli.main(["train", "x.yaml"])


def test_other_errors_keep_their_traceback(command):
    def fault(args):
        raise ZeroDivisionError

    command(fault)
    with pytest.raises(ZeroDivisionError):
        cli.main(["train", "x.yaml"])


def test_an_error_of_ours_in_a_cleanup_does_not_hide_the_first_error(command):
    def fault(args):
        try:
            raise ZeroDivisionError
        finally:
            raise ConfigError("the cleanup failed too")

    command(fault)
    with pytest.raises(ConfigError) as raised:
        cli.main(["train", "x.yaml"])
    assert isinstance(raised.value.__context__, ZeroDivisionError)


def test_report_says_where_and_what(tmp_path, capsys):
    folder = write_run(tmp_path / "run")
    assert cli.main(["report", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "0.7630 -> 0.8480" in out
    assert "97.7% (+- 1.1%) of the way there" in out
    assert f"report: {folder / 'report.html'}" in out
    assert (folder / "report.html").exists()


def test_info_lists_what_there_is(capsys):
    assert cli.main(["info"]) == 0
    out = capsys.readouterr().out
    for said in ("coop_compete_v0", "team_battle_v0", "federated", "hierarchical"):
        assert said in out


def test_info_marks_environments_whose_extras_are_missing(capsys, monkeypatch):
    def not_ready():
        assert cli.main(["info"]) == 0
        lines = capsys.readouterr().out.splitlines()
        return {
            line.split()[0]: line.partition("(not ready: ")[2]
            for line in lines
            if "not read" in line
        }

    assert not_ready() == {}
    for package in ("bm25s", "pyseccomp"):
        monkeypatch.setitem(sys.modules, package, None)
    assert not_ready() == {
        "code_v0": 'pip install "core-srl[sandbox]")',
        "tool_use_v0": 'pip install "core-srl[tasks]")',
        "multitask_v0": 'pip install "core-srl[tasks,sandbox]")',
    }


def test_a_reader_that_leaves_early_is_no_fault():
    script = "import sys; from srl_train.cli import main; sys.exit(main(['info']))"
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-c", script],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def test_info_describes_exactly_what_can_be_configured():
    assert set(info.STRATEGIES) == set(STRATEGIES)
    assert set(info.MODES) == set(MODES)


@pytest.mark.parametrize("begun", [True, False])
def test_an_interrupted_training_says_how_to_go_on(command, capsys, tmp_path, begun):
    def interrupt(args):
        args.folder = tmp_path
        raise KeyboardInterrupt

    if begun:
        (tmp_path / "config.yaml").write_text("")
    command(interrupt)
    assert cli.main(["train", "x.yaml"]) == 130
    said = capsys.readouterr().err
    assert (f"to go on: srl train --resume --out {tmp_path}" in said) is begun


def test_a_traceback_reaches_the_terminal_escaped(capsys):
    try:
        raise ValueError("\x1b]0;owned\x07")
    except ValueError as error:
        cli.print_traceback(ValueError, error, error.__traceback__)
    printed = capsys.readouterr().err
    assert "ValueError: \\x1b]0;owned\\x07" in printed and "test_cli.py" in printed
