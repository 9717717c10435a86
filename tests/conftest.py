"""What all tests share."""

import gc
import os
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect no garbage while modules are imported: a quarter of that time, and there is none.
    What is there by the end stays to the end, and out of every collection to come, which are
    fewer than usual."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        gc.enable()
        for device in ("cuda", "mtia", "xpu"):
            # Where there is none torch keeps the stack of every seed for it; a test's is deep.
            if f"torch.{device}" in sys.modules:
                sys.modules[f"torch.{device}"].traceback = SimpleNamespace(format_stack=list)


@pytest.fixture(scope="session", autouse=True)
def embedded_models(tmp_path_factory):
    """Build each embedded model once per session, and outside the user's own cache."""
    base = tmp_path_factory.getbasetemp()
    # Under pytest-xdist a worker's own folder is one of several in the session's.
    session = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CORE_SRL_CACHE", str(session / "cache"))
        yield


@pytest.fixture(scope="session", autouse=True)
def open_sandboxes():
    """Keep the sandboxes of code_v0 for all environments to come: each is half a second's start."""
    from srl_envs.tasks import programming

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(programming, "_sandboxes", {})
        yield


@pytest.fixture(scope="session")
def tiny_folder(embedded_models):
    """The embedded model of the two-player game; it reads and answers every other game as well."""
    from srl_agents.llm import tiny
    from srl_envs import coop_compete_v0

    return str(tiny.folder(lambda: coop_compete_v0.parallel_env(variant="pair", max_cycles=3)))


@pytest.fixture
def one_model(monkeypatch, tiny_folder):
    """The embedded model of one game stands for that of any other: none is built."""
    from srl_agents.llm import tiny

    def folder(make_env, **_):
        make_env()  # it may refuse
        return Path(tiny_folder)

    monkeypatch.setattr(tiny, "folder", folder)


@pytest.fixture
def glimpse(monkeypatch):
    """Builds embedded models that were shown a game for a moment only: they write, but not always
    in form."""
    from srl_agents.llm import tiny as model

    monkeypatch.setattr(model, "ROUNDS", 1)
    return partial(model.folder, steps=4, turns=1)


@pytest.fixture
def in_small(monkeypatch):
    """Has every trainer run with these settings, by dotted name, on top of its own."""
    from srl_train import trainer
    from srl_train.config import yaml_file

    build_run = trainer.build_run

    def settings_on_top(**settings):
        dotted = {name.replace("__", "."): value for name, value in settings.items()}

        def smaller(config, *parts):
            return build_run(yaml_file.from_tree(yaml_file.to_tree(config), dotted), *parts)

        monkeypatch.setattr(trainer, "build_run", smaller)

    return settings_on_top
