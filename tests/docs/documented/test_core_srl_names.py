"""Every name, parameter, field, member and default that the documents list is there."""

import ast
import importlib.util
import inspect
import re

import pytest

import core_srl
from tests.docs.documented.blocks import HERE, blocks, runs

ROOT = HERE.parents[2]
LISTINGS = {
    heading: code for heading, code in blocks("core_srl_api_reference").items() if not runs(code)
}


@pytest.fixture(scope="module")
def compatibility():
    path = ROOT / "docs/project/compatibility.py"
    spec = importlib.util.spec_from_file_location("compatibility", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_listed_name_is_there(compatibility):
    for entry in compatibility.listed("core_srl"):
        thing, _ = compatibility.found("core_srl", entry)
        assert thing is not None


def test_the_page_is_up_to_date(compatibility):
    if not compatibility.LISTS["mrlm"].is_file():
        pytest.skip("this copy is without compat/mrlm")
    assert compatibility.PAGE.read_text(encoding="utf-8") == compatibility.page()


def functions():
    """(name with its class, parameters as written) of all that is listed with parentheses."""
    return list(_functions())


def _functions():
    for code in LISTINGS.values():
        owner = ""
        for line in code.splitlines():
            if found := re.match(r"class (\w+)", line):
                owner = f"{found[1]}."
            elif found := re.match(r"(\s*(?:async )?def )?(\w+)\(([^()]*)\)", line):
                inside = owner if found[1] and line.startswith(" ") else ""
                yield f"{inside}{found[2]}", found[3]


@pytest.mark.parametrize(("name", "written"), functions(), ids=[name for name, _ in functions()])
def test_takes_the_documented_parameters(name, written, compatibility):
    thing = core_srl
    for part in name.split("."):
        thing = getattr(thing, part)
    if not name.endswith("__init__"):
        assert name in {entry["name"] for entry in compatibility.listed("core_srl")}
    ours = inspect.signature(thing).parameters
    text = re.sub(r"\[[^\[\]]*(?:\[[^\]]*\])?[^\[\]]*\]", "", written)  # of types
    theirs = [part.strip() for part in text.split(",") if part.strip()]
    takes_all = any(own.kind is own.VAR_KEYWORD for own in ours.values())
    positional = [own for own in ours if own != "self"]
    wanted = [re.match(r"\**(\w+)", part)[1] for part in theirs]
    wanted = [one for one in wanted if one not in ("self", "kwargs")]
    assert positional[: len(wanted)] == wanted or (takes_all and name.startswith("create_"))
    for part in theirs:
        if "=" in part:
            own = ours[re.match(r"(\w+)", part)[1]]
            assert own.default == ast.literal_eval(part.partition("=")[2].strip())


FIELDS = ("MultiModelConfig", "LLMConfig", "RLConfig", "LoRAConfig")


@pytest.mark.parametrize("name", FIELDS)
def test_has_the_documented_fields_and_defaults(name):
    made = core_srl.LoRAConfig(lora_id=0) if name == "LoRAConfig" else getattr(core_srl, name)()
    found = re.findall(r"^    (\w+): [^=\n]+?(?: = (.*))?$", LISTINGS[name], re.MULTILINE)
    assert len(found) > 4
    for field, default in found:
        assert hasattr(made, field), field
        if default and default != "{...}":
            expected = eval(re.sub(r"#.*", "", default), vars(core_srl) | _enums())
            assert getattr(made, field) == expected, field


def _enums():
    kinds = ("TrainingMode", "WeightUpdateStrategy", "LLMBackend", "UpdateStrategy", "RLAlgorithm")
    return {kind: getattr(core_srl, kind) for kind in kinds}


@pytest.mark.parametrize("name", ["TrainingMode", "WeightUpdateStrategy", "LLMBackend"])
def test_has_the_documented_members(name):
    written = dict(re.findall(r'^    (\w+) = "(\w+)"', LISTINGS[name], re.MULTILINE))
    assert {member.name: member.value for member in getattr(core_srl, name)} == written
