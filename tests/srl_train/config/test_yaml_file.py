"""YAML files of unknown origin: valid files are read, others raise an error of one line."""

import pytest

from srl_envs.errors import DocumentError
from srl_envs.loading import read_yaml
from srl_extensions.pages.run_folder import load
from srl_train.config import yaml_file
from srl_train.errors import ConfigError, RunFolderError

LAUGHS = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 40))
MERGES = "a0: &a0 {x: 1}\n" + "".join(
    f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}\n" for i in range(1, 40)
)
REFUSED = {
    "no bool": "a: !!bool x",
    "no date": "a: 2026-13-01",
    "a deep list": "a: " + "[" * 10_000,
    "a deep mapping": "{a: " * 100 + "1" + "}" * 100,
    "aliases of aliases": LAUGHS,
    "merges of merges": MERGES,
    "an alias of itself": "a: &a [*a]",
    "a long number": "a: 0x" + "f" * 10_000,
    "a very long sum": "a: 1" + ":59" * 10_000,
    "a large document": "# " + "x" * 2**20,
    "a control character": "a: \x07",
    "an unhashable key": "? [1]\n: 1",
    "code": "a: !!python/object/apply:os.getpid []",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_unreadable_yaml_raises_an_error_of_one_line(text, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(DocumentError):
        read_yaml(text)
    with pytest.raises(ConfigError) as refused:
        yaml_file.load(path)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 1000
    with pytest.raises(RunFolderError, match=r"config\.yaml (is damaged|has more than)"):
        load(tmp_path)


def test_small_aliases_and_merges_are_read():
    text = "base: &base {a: 1, b: [1, 2]}\none: {<<: *base, a: 2}\ntwo: *base\n"
    base = {"a": 1, "b": [1, 2]}
    assert read_yaml(text) == {"base": base, "one": {"a": 2, "b": [1, 2]}, "two": base}
