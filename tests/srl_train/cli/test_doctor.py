"""`srl doctor`: missing and outdated packages of extras, and install commands."""

from importlib import metadata

import pytest

from srl_train.cli import doctor, main

REQUIRES = (
    "numpy>=1.26",
    'torch>=2.6; extra == "train"',
    'pyseccomp>=0.1.2; extra == "sandbox"',
    'vllm>=0.22; extra == "vllm"',
    'ruff>=0.14; extra == "dev"',
)
INSTALLED = {"numpy": "2.4.6", "torch": "2.13.0+cpu"}


class Package:
    """Fake distribution of core-srl."""

    version, requires = "0.1.0", REQUIRES

    class metadata:
        @staticmethod
        def get_all(name):
            return ["train", "sandbox", "vllm", "dev"]


@pytest.fixture
def installed(monkeypatch):
    there = dict(INSTALLED)

    def version(name):
        if name not in there:
            raise metadata.PackageNotFoundError(name)
        return there[name]

    monkeypatch.setattr(doctor.metadata, "distribution", lambda name: Package)
    monkeypatch.setattr(doctor.metadata, "version", version)
    monkeypatch.setattr(doctor, "accelerators", lambda: {"cuda:0": "a GPU, 78.0 GiB"})
    return there


def test_doctor_lists_extras_with_install_commands(installed, capsys):
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "train         ok" in out
    assert 'pyseccomp is missing: pip install "core-srl[sandbox]"\n' in out
    assert '"core-srl[vllm]" in a separate environment' in out
    assert "cuda:0        a GPU, 78.0 GiB" in out
    assert "ruff" not in out


def test_exit_code_is_1_without_the_packages_of_train(installed, capsys):
    installed["torch"] = "2.5.1"
    assert main(["doctor"]) == 1
    assert "torch is 2.5.1, must be >=2.6: pip install" in capsys.readouterr().out


def test_uninstalled_source_folder_is_reported(monkeypatch, capsys):
    def nowhere(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor.metadata, "distribution", nowhere)
    assert main(["doctor"]) == 1
    assert "pip install -e ." in capsys.readouterr().out
