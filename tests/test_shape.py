"""Structure of the code: import layers, names, forbidden calls and circles."""

from __future__ import annotations

import ast
import functools
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[1]
LAYERS = {
    "srl_envs": 0, "srl_agents": 1, "srl_train": 2, "srl_extensions": 3, "core_srl": 4,
    "benchmarks": 5, "examples": 5, "compat": 5,
}  # fmt: skip
TORCH_FAMILY = {
    "torch", "transformers", "tokenizers", "accelerate", "datasets", "safetensors", "peft", "trl",
}  # fmt: skip
WITH_TORCH = (
    "srl_train/*", "srl_extensions/*", "core_srl/*", "compat/*", "benchmarks/*", "examples/*",
)  # fmt: skip
# Package -> places that may import it, at any level of a file.
PLACES = dict.fromkeys(
    TORCH_FAMILY,
    (
        "srl_agents/llm/backends/huggingface/*.py",
        "srl_agents/llm/tiny.py",
        *WITH_TORCH,
    ),
) | {
    "datasets": (
        "srl_envs/tasks/text_task.py",
        *WITH_TORCH,
    ),
    "trl": (
        "srl_train/learners/trl_*.py",
        "srl_extensions/offline/learners.py",
        "benchmarks/*",
        "examples/*",
    ),
    "pydantic": (
        "srl_envs/tasks/tool_use/tools.py",
        "srl_train/credit.py",
        "srl_train/modes.py",
        "srl_train/config/*",
        "srl_extensions/*",
        "srl_train/checkpoints.py",
        "srl_train/resume.py",
        "srl_train/learners/trl_arguments.py",
        "compat/mrlm/mrlm/config.py",
        "core_srl/*.py",
        "benchmarks/*",
        "examples/*",
    ),
    "typing_extensions": (
        "srl_train/config/*",
        "srl_extensions/*",
        "srl_agents/policy.py",
    ),  # a dependency of pydantic
    "matplotlib": (),
    # Weights are safetensors and everything else is JSON. Only pickle's error class is used.
    "pickle": ("srl_train/adapters.py",),
    # Randomness comes from seeded generators. The global generators are only saved and restored
    # around TRL and TextArena.
    "random": ("srl_train/learners/trl_*.py", "srl_extensions/bridges/textarena.py"),
}
UNFINISHED = re.compile(
    r"\b(placeholder|mock\w*|dummy|stub(?:bed)?|TODO|FIXME|not (?:yet )?implemented(?: yet)?)\b",
    re.I,
)


def sources(*tops: str) -> list[Path]:
    written = (path for top in tops for path in sorted((ROOT / top).rglob("*.py")))
    return [path for path in written if not path.stem.endswith("_pb2")]  # generated files


PACKAGE_FILES = sources(*LAYERS)
ALL_FILES = [*PACKAGE_FILES, *sources("tests")]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@functools.cache
def nodes_of(path: Path) -> list[ast.AST]:
    """Return all syntax nodes of a file."""
    return [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]


@functools.cache
def imports_of(path: Path) -> frozenset[str]:
    """Return the top-level names of all imports of a file, at any level."""
    return frozenset(_imported(path))


def _imported(path: Path) -> Iterator[str]:
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}: import by full name, not relatively"
            yield str(node.module).split(".")[0]
        elif isinstance(node, ast.Call) and _last_name(node.func) == "import_module":
            # import_module with a literal name counts as an import.
            yield from (
                str(word.value).split(".")[0]
                for word in node.args
                if isinstance(word, ast.Constant)
            )


def _last_name(node: ast.expr) -> str | None:
    return getattr(node, "attr", None) or getattr(node, "id", None)


def assert_none(found: list[str]) -> None:
    """Fail with a line per place if there is any."""
    assert not found, "\n" + "\n".join(found)


def test_packages_import_only_lower_layers():
    assert_none([
        f"{name_of(path)} imports {name} from a higher layer"
        for path in PACKAGE_FILES
        for name in imports_of(path)
        if LAYERS.get(name, 0) > LAYERS[name_of(path).split("/")[0]]
    ])  # fmt: skip


def test_extensions_do_not_import_each_other():
    allowed = {("judging", "pages")}  # cross-play records are drawn as pages
    extensions = [path for path in PACKAGE_FILES if name_of(path).startswith("srl_extensions/")]
    pairs = {
        (name_of(path).split("/")[1], imported)
        for path in extensions
        for imported in re.findall(r"srl_extensions\.(\w+)", path.read_text(encoding="utf-8"))
    }
    assert {pair for pair in pairs if pair[0] != pair[1]} <= allowed


def test_heavy_packages_are_imported_only_in_their_places():
    assert_none([
        f"{name_of(path)} may not import {name}"
        for path in PACKAGE_FILES
        for name in imports_of(path)
        if name in PLACES and not any(fnmatch(name_of(path), place) for place in PLACES[name])
    ])  # fmt: skip


TAKES_NO_TORCH = (
    "import srl_envs, srl_envs.registry",
    "import srl_agents, srl_agents.rollout, srl_agents.scripted",
    "import srl_train.metrics, srl_train.config.yaml_file",
    "import srl_train.cli; srl_train.cli.main(['info'])",
    "import srl_train.cli; srl_train.cli.main(['--help'])",
    "import srl_train.cli; srl_train.cli.main(['train', '--help'])",
    "import srl_train.cli; srl_train.cli.main(['report', '--help'])",
    "import srl_train.cli; srl_train.cli.main(['collect', '--help'])",
    "import srl_train.cli; srl_train.cli.main(['play', '--help'])",
    "import srl_train.cli; srl_train.cli.main(['replay', '--help'])",
    "import srl_extensions.pages.transcript",
    "import srl_extensions.pages.live_server",
    "import srl_extensions.vllm.fleet",
    "import srl_train.cli; srl_train.cli.main(['eval', '--help'])",
    "import srl_train.cli; srl_train.cli.main(['eval', '--policy', 'uniform', '--episodes',"
    " '2', '--environment', 'coop_compete_pair_v0', '--quiet'])",
    "import core_srl",
    "import benchmarks",
)


def test_module_imports_without_torch():
    # A separate process, because this one has imported everything.
    script = (
        "import sys\n"
        f"for code in {TAKES_NO_TORCH!r}:\n"
        "    try:\n"
        "        exec(code, {})\n"
        "    except SystemExit as end:\n"
        "        assert end.code == 0, (code, end.code)\n"
        f"    heavy = sorted({TORCH_FAMILY | {'matplotlib'}} & set(sys.modules))\n"
        "    assert not heavy, (code, heavy)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_no_placeholders():
    assert_none([
        f"{name_of(path)}:{number}: {line.strip()}"
        for path in PACKAGE_FILES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if UNFINISHED.search(line)
    ])  # fmt: skip


def test_no_exception_is_swallowed():
    handlers = (
        (f"{name_of(path)}:{node.lineno}", node)
        for path in PACKAGE_FILES
        for node in nodes_of(path)
        if isinstance(node, ast.ExceptHandler)
    )
    for where, node in handlers:
        caught = ast.unparse(node.type) if node.type else "everything"
        broad = not node.type or re.search(r"\b(Base)?Exception\b", caught)
        raises = any(isinstance(inner, ast.Raise) for inner in ast.walk(node))
        assert raises or not broad, f"{where} catches {caught} and goes on"
        assert not all(isinstance(inner, ast.Pass) for inner in node.body), (
            f"{where} ignores {caught}"
        )


def installed_packages() -> list[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return list(settings["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])


def test_installed_packages_import_no_other_folder():
    installed = installed_packages()
    assert installed == ["srl_envs", "srl_agents", "srl_train", "srl_extensions", "core_srl"]
    apart = {*LAYERS, "mrlm"} - set(installed)
    # Tables name modules as text, which are imported when used.
    named = re.compile(rf"({'|'.join(apart)})(\.\w+)+")
    for path in sources(*installed):
        texts = (node.value for node in nodes_of(path) if isinstance(node, ast.Constant))
        found = [text for text in texts if isinstance(text, str) and named.fullmatch(text)]
        assert not found and not apart & set(imports_of(path)), f"{name_of(path)}: {found}"


def requirements() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    own = f"{project['name']}["
    [among_them] = [name for name in extras["dev"] if name.startswith(own)]
    asked = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()[-1]
    for listed in (among_them.removeprefix(own), asked.removeprefix("-e .[")):
        assert set(listed.removesuffix("]").split(",")) <= set(extras)
    every = [*project["dependencies"], *(name for names in extras.values() for name in names)]
    return [name for name in every if name != among_them]


def test_every_requirement_has_a_reason():
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    for wanted in requirements():
        line = next(line for line in lines if f'"{wanted}"' in line)
        assert "#" in line, f"pyproject.toml: {wanted} needs a comment with its purpose"


def test_constraints_pin_every_requirement():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert [pin for pin in pins if not re.fullmatch(r"[a-z0-9.-]+==[a-z0-9.]+", pin)] == []
    pinned = {pin.split("==")[0] for pin in pins}
    assert {re.split(r"[^\w-]", name.lower())[0] for name in requirements()} <= pinned


def test_every_example_has_a_test():
    programs = sources("tests/examples", "tests/interop", "tests/srl_extensions/bridges")
    tests = "\n".join(path.read_text(encoding="utf-8") for path in programs)
    examples = [*sources("examples"), *(ROOT / "examples").rglob("*.yaml")]
    assert [path.name for path in examples if path.stem not in tests] == []


def imported_modules() -> dict[str, set[str]]:
    """Return module -> imported modules of the packages, without imports for type checking."""
    files = {
        name_of(path)
        .removeprefix("compat/mrlm/")
        .removesuffix(".py")
        .removesuffix("/__init__")
        .replace("/", "."): path
        for path in PACKAGE_FILES
    }
    found: dict[str, set[str]] = {}
    for module, path in files.items():
        for_types = {
            id(inner)
            for node in nodes_of(path)
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
            for inner in ast.walk(node)
        }
        names: set[str] = set()
        for node in nodes_of(path):
            if isinstance(node, ast.ImportFrom) and id(node) not in for_types:
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    names.add(full if full in files else str(node.module))
            elif isinstance(node, ast.Import) and id(node) not in for_types:
                names |= {alias.name for alias in node.names}
        found[module] = (names & set(files)) - {module}
    return found


def test_no_import_circles():
    imports = imported_modules()
    # Remove modules without remaining imports, which cannot be part of a circle.
    while free := [module for module, names in imports.items() if not names & set(imports)]:
        for module in free:
            del imports[module]
    # Remove modules that only lead to a circle.
    while outer := set(imports) - {name for names in imports.values() for name in names}:
        for module in outer:
            del imports[module]
    circles = {module: sorted(names & set(imports)) for module, names in imports.items()}
    assert not circles, circles


def test_continuous_integration_can_start():
    assert os.access(ROOT / ".ci/run", os.X_OK)
