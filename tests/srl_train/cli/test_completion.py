"""Shell completion: bash itself completes commands and options by what is printed."""

import shutil
import subprocess
import sys

import pytest

from srl_train.cli import COMMANDS, main


def completions(script, *words):
    """What bash offers for the last of the words."""
    line = " ".join(words)
    program = (
        f"{script}\nCOMP_WORDS=({line})\nCOMP_CWORD={len(words) - 1}\n"
        "COMP_LINE='{line}'\n_shtab_srl\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n"
    )
    told = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    return set(told.stdout.split())


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash on this machine")
def test_bash_completes_commands_and_options(capsys):
    assert main(["--print-completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert completions(script, "srl", "cro") == {"crossplay"}
    assert set(COMMANDS) <= completions(script, "srl", "''")
    assert "--resume" in completions(script, "srl", "train", "--res")
    assert {"models", "env"} <= completions(script, "srl", "serve", "''")


def test_zsh_has_its_own(capsys):
    assert main(["--print-completion", "zsh"]) == 0
    assert capsys.readouterr().out.startswith("#compdef srl")


def test_what_is_missing_says_what_installs_it(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["--print-completion", "bash"]) == 2
    assert 'pip install "core-srl[completion]"' in capsys.readouterr().err
