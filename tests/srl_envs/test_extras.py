import re
import tomllib
from pathlib import Path

from srl_envs.extras import EXTRAS, install_line

ROOT = Path(__file__).parents[2]


def test_a_missing_package_is_told_with_its_extra():
    missing = ModuleNotFoundError("No module named 'safetensors.torch'", name="safetensors.torch")
    line = 'this needs safetensors: pip install "core-srl[train]"'
    assert install_line(missing, "this") == line
    assert install_line(ModuleNotFoundError("no", name="somebodys"), "this") is None


def test_every_package_is_in_its_extra():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for package, extra in EXTRAS.items():
        wanted = project["optional-dependencies"][extra]
        names = {re.split(r"[^\w-]", one)[0] for one in wanted}
        assert {"PIL": "pillow"}.get(package, package) in names | {"tokenizers"}
