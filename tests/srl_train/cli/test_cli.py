"""Command line: help, errors, exit codes and interrupts."""

import importlib
import sys
import types

import pytest

from srl_train import cli
from srl_train.errors import ConfigError

PLAYED = "uniform", "--environment", "coop_compete_pair_v0", "--out"


@pytest.fixture
def command(monkeypatch):
    """Return a function that replaces the function of `srl train`."""

    def install(run):
        module = types.ModuleType("srl_train.cli.train")
        module.add_arguments = lambda parser: parser.add_argument("config")
        module.run = run
        monkeypatch.setitem(sys.modules, "srl_train.cli.train", module)

    return install


def test_no_command_prints_the_help(capsys):
    assert cli.main([]) == 0
    assert set(cli.COMMANDS) <= set(capsys.readouterr().out.split())


def test_unknown_argument_is_printed_without_control_characters(capsys):
    with pytest.raises(SystemExit):
        cli.main(["info", "\x1b[2J\u202e"])
    assert capsys.readouterr().err.endswith(": \\x1b[2J\\u202e; see srl info --help\n")


def test_project_error_is_one_line_with_exit_code_2(command, capsys):
    def refuse(args):
        raise ConfigError(f"{args.config} is\nnot right")

    command(refuse)
    assert cli.main(["train", "x.yaml"]) == 2
    assert capsys.readouterr().err == "srl: error: x.yaml is not right\n"


def test_missing_extra_prints_the_install_command(command, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    command(lambda args: importlib.import_module("torch"))
    assert cli.main(["train", "x.yaml"]) == 2
    assert 'pip install "core-srl[train]"' in capsys.readouterr().err


@pytest.mark.parametrize("words", [["replay"], ["crossplay", "leader", *PLAYED]])
def test_a_path_out_of_reach_is_one_line(words, capsys):
    assert cli.main([*words, "x" * 300]) == 2
    assert capsys.readouterr().err.endswith("x: File name too long\n")


def test_other_errors_keep_their_traceback(command):
    def fault(args):
        raise ZeroDivisionError

    command(fault)
    with pytest.raises(ZeroDivisionError):
        cli.main(["train", "x.yaml"])


def test_info_lists_the_names_of_parts(capsys):
    assert cli.main(["info"]) == 0
    out = capsys.readouterr().out
    for name in ("coop_compete_v0", "federated", "hierarchical", "team_joint", "grpo, ppo", "vllm"):
        assert name in out


def test_info_marks_environments_whose_extras_are_missing(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyseccomp", None)
    assert cli.main(["info"]) == 0
    marked = [line for line in capsys.readouterr().out.splitlines() if "not ready" in line]
    assert any("code_v0" in line and "core-srl[sandbox]" in line for line in marked)


@pytest.mark.parametrize("begun", [True, False])
def test_interrupt_prints_the_command_to_resume(command, capsys, tmp_path, begun):
    def interrupt(args):
        args.folder = tmp_path
        raise KeyboardInterrupt

    if begun:
        (tmp_path / "config.yaml").write_text("")
    command(interrupt)
    assert cli.main(["train", "x.yaml"]) == 130
    err = capsys.readouterr().err
    assert (f"to resume: srl train --resume --out {tmp_path}" in err) is begun


def test_traceback_is_printed_without_control_characters(capsys):
    try:
        raise ValueError("\x1b]0;owned\x07")
    except ValueError as error:
        cli.print_traceback(ValueError, error, error.__traceback__)
    printed = capsys.readouterr().err
    assert "ValueError: \\x1b]0;owned\\x07" in printed and "test_cli.py" in printed
