import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from srl_envs.sandbox.guest import confinement
from tests.srl_envs.sandbox.sandboxes import any_sandbox

ROOT = Path(__file__).parents[4]
LIBRARY = ["json/__init__.py", "os.py", "__pycache__/os.pyc", "_sysconfigdata__linux.py"]
FOREIGN = [
    "site-packages/srl_envs/tasks/programming.py",
    "dist-packages/numpy/__init__.py",
    "srl_envs/tasks/programming.py",
    "core_srl.py",
    "core_srl-0.9.dist-info/RECORD",
    "sitecustomize.py",
]


def test_only_the_standard_library_is_readable(tmp_path, monkeypatch):
    library, extensions = tmp_path / "python3.99", tmp_path / "python3.99" / "lib-dynload"
    for name in (*LIBRARY, *FOREIGN, "lib-dynload/_bisect.so", "lib-dynload/srl_envs.so"):
        path = library / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    zipped = tmp_path / "python399.zip"
    zipped.touch()
    monkeypatch.setattr(sys, "path", [str(zipped), str(library), str(extensions), "/nowhere"])
    readable = confinement.readable_files()
    ours = [str(library / name.split("/")[0]) for name in LIBRARY]
    expected = {*ours, str(zipped), str(extensions / "_bisect.so")}
    assert {each for each in readable if each.startswith(str(tmp_path))} == expected
    # All other entries are single shared libraries.
    others = [each for each in readable if each not in expected and each != "/etc/ld.so.cache"]
    assert others and all(".so" in Path(each).name and os.path.isfile(each) for each in others)


def test_standard_library_can_be_imported_and_the_project_cannot():
    names = "sqlite3, platform, asyncio, ssl, zlib, ctypes, xml.etree.ElementTree, logging"
    places = [str(ROOT), sysconfig.get_path("purelib")]
    solver = f"import sys\nsys.path += {places!r}\nfrom srl_envs.tasks import programming"
    for without in ((), ("namespaces",)):
        with any_sandbox(without=without) as sandbox:
            active = sandbox.protections()
            if not active.seccomp or active.namespaces or active.landlock:
                assert sandbox.evaluate(f"import {names}").error == ""
            if sandbox.protections().level != "limits":  # The program cannot generate problems.
                assert sandbox.evaluate(solver).error.startswith("ModuleNotFoundError")


KERNEL = """
import os, sys
from srl_envs.sandbox import seccomp
from srl_envs.sandbox.guest import kernel

path, program = sys.argv[1], seccomp.compiled("readable")
for version in range(1, kernel.landlock_version() + 1):
    if os.fork() == 0:
        rules = kernel.file_rules(version, [path], [])
        kernel.drop_capabilities()
        kernel.set_option(kernel.NO_NEW_PRIVILEGES)
        kernel.restrict_files(rules)
        kernel.filter_calls(program)
        assert open(path).read() == "kept"
        for flags in (os.O_TRUNC, os.O_WRONLY, os.O_RDWR, os.O_CREAT, os.O_WRONLY | os.O_TRUNC):
            try:
                os.open(path, flags)
            except PermissionError:
                continue
            sys.exit(f"opened with {flags}")
        os._exit(0)
    assert os.wait()[1] == 0, version
"""


def test_no_version_of_landlock_permits_truncation(tmp_path):
    pytest.importorskip("pyseccomp")
    path = tmp_path / "library.py"
    path.write_text("kept")
    ran = subprocess.run(
        [sys.executable, "-c", KERNEL, str(path)],
        capture_output=True, text=True, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (ran.returncode, path.read_text()) == (0, "kept"), ran.stderr
