"""Log messages during a command are printed to stderr."""

import logging

import pytest

from srl_train.cli import notices

LOG = logging.getLogger("srl_agents.somewhere")


@pytest.mark.parametrize(
    ("quiet", "shown"),
    [(False, "srl: half done\nsrl: warning: odd\\x1b\n"), (True, "srl: warning: odd\\x1b\n")],
)
def test_log_messages_are_printed_to_stderr(capsys, quiet, shown):
    before = logging.getLogger("srl_agents").level
    with notices.shown(quiet=quiet):
        LOG.info("half %s", "done")
        LOG.warning("odd\x1b")
    LOG.info("after the command")
    printed = capsys.readouterr()
    assert (printed.err, printed.out) == (shown, "")
    assert logging.getLogger("srl_agents").level == before


def test_logged_exception_is_printed_with_traceback(capsys):
    with notices.shown(quiet=True):
        try:
            int("x\x1b")
        except ValueError:
            LOG.exception("an environment failed")
    first, *rest = capsys.readouterr().err.splitlines()
    assert first == "srl: warning: an environment failed"
    assert __file__ in rest[1] and rest[-1].startswith("ValueError: ") and "\x1b" not in rest[-1]
