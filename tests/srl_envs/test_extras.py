import re
import tomllib
from pathlib import Path

import pytest

from srl_envs.loading import EXTRAS, install_line, needed_by

ROOT = Path(__file__).parents[2]
DISTRIBUTIONS = {
    "PIL": "pillow",
    "grpc": "grpcio",
    "google": "protobuf",
}
"""Distribution of each package whose import name is different."""


def test_missing_package_error_contains_its_extra():
    missing = ModuleNotFoundError("No module named 'safetensors.torch'", name="safetensors.torch")
    line = 'this needs safetensors: pip install "core-srl[train]"'
    assert install_line(missing, "this") == line
    assert install_line(ModuleNotFoundError("no", name="somebodys"), "this") is None


def test_needed_by_raises_install_command():
    with (
        pytest.raises(KeyError, match="this needs mpmath: pip install"),
        needed_by("this", KeyError),
    ):
        raise ModuleNotFoundError("No module named 'mpmath'", name="mpmath")


@pytest.mark.parametrize("other", [ImportError("libcuda.so"), ModuleNotFoundError(name="mine")])
def test_other_import_errors_pass(other):
    with pytest.raises(ImportError) as told, needed_by("this", KeyError):
        raise other
    assert told.value is other


def test_every_package_is_in_its_extra():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for package, extra in EXTRAS.items():
        wanted = project["optional-dependencies"][extra]
        names = {re.split(r"[^\w-]", one)[0] for one in wanted}
        assert DISTRIBUTIONS.get(package, package) in names | {"tokenizers"}
