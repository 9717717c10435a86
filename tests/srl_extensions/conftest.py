"""Fixtures of short runs, shared with the tests of srl_train."""

from tests.srl_train.conftest import short_run

__all__ = ["short_run"]
