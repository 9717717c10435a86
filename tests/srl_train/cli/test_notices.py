"""What packages say while a command runs reaches whoever watches, and nobody else."""

import logging

import pytest

from srl_train.cli import notices

LOG = logging.getLogger("srl_agents.somewhere")


@pytest.mark.parametrize(
    ("quiet", "shown"),
    [(False, "srl: half done\nsrl: warning: odd\\x1b\n"), (True, "srl: warning: odd\\x1b\n")],
)
def test_notices_go_to_stderr(capsys, quiet, shown):
    before = logging.getLogger("srl_agents").level
    with notices.shown(quiet=quiet):
        LOG.info("half %s", "done")
        LOG.warning("odd\x1b")
    LOG.info("nobody listens")
    told = capsys.readouterr()
    assert (told.err, told.out) == (shown, "")
    assert logging.getLogger("srl_agents").level == before
