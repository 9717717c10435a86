from importlib import metadata

import pytest

from srl_envs.errors import EnvConfigError
from srl_envs.tables import Plugin, PluginTable

OWN = {"sqrt": Plugin("math:sqrt", "square root"), "json": Plugin("json")}


@pytest.fixture
def table(monkeypatch):
    added = [
        metadata.EntryPoint("cube", "math:cbrt", "tests.numbers"),
        metadata.EntryPoint("sqrt", "math:floor", "tests.numbers"),
    ]
    monkeypatch.setattr(
        metadata, "entry_points", lambda group: added if group == "tests.numbers" else []
    )
    return PluginTable("tests.numbers", OWN)


def test_parts_load_their_attribute_or_their_module(table):
    import json

    assert table.load("sqrt")(9) == 3
    assert table.load("json") is json


def test_entry_points_add_parts_but_replace_none(table):
    assert [*table] == ["sqrt", "json", "cube"]
    assert table.load("cube")(27) == pytest.approx(3)
    assert table.load("sqrt")(9) == 3


def test_an_unknown_name_lists_the_allowed_ones(table):
    with pytest.raises(EnvConfigError, match="sqrt, json, cube"):
        table.load("root")
