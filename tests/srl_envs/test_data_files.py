"""Data files: every mistake raises EnvConfigError with file and line."""

from functools import partial

import pytest

from srl_envs.errors import EnvConfigError
from srl_envs.tasks import mathematics, programming
from srl_envs.tasks.base import load_problems
from srl_envs.tasks.debate import load_topics

DEEP = "[" * 400 + "]" * 400
READERS = [mathematics.read_problem, programming.read_problem]
LOADERS = [load_topics, *(partial(load_problems, read=read) for read in READERS)]


@pytest.mark.parametrize("load", LOADERS)
@pytest.mark.parametrize(
    "line", [DEEP, "[" * 100_000, "9" * 5000, "[1e999]", "[NaN]", "{", DEEP[:60], "3", "null"]
)
def test_every_loader_names_file_and_line(tmp_path, load, line):
    path = tmp_path / "rows.jsonl"
    path.write_text(f"\n\n{line}\n")
    with pytest.raises(EnvConfigError, match=r"rows\.jsonl, line 3: ") as raised:
        load(path)
    assert len(str(raised.value)) < 600


@pytest.mark.parametrize("load", LOADERS)
def test_missing_or_blank_texts_raise(tmp_path, load):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'"\xff"')
    for wrong in (path, tmp_path / "none.jsonl", tmp_path):
        with pytest.raises(EnvConfigError, match="cannot read the "):
            load(wrong)
