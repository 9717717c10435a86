"""Fixtures that all tests share."""

import gc
import os
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Disable garbage collection during imports, which takes a quarter of their time.

    Imported objects are never freed, so later collections skip them and run less often.
    """
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
    """Build each embedded model once per session, outside the user's cache."""
    base = tmp_path_factory.getbasetemp()
    # Under pytest-xdist, each worker's folder is inside the session's folder.
    session = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CORE_SRL_CACHE", str(session / "cache"))
        yield


@pytest.fixture(scope="session")
def tiny_folder(embedded_models):
    """Return the folder of the embedded model of the two-player game, which can play any game."""
    from srl_agents.llm import tiny
    from srl_envs import coop_compete_v0

    return str(tiny.folder(lambda: coop_compete_v0.parallel_env(variant="pair", max_cycles=3)))


@pytest.fixture
def one_model(monkeypatch, tiny_folder):
    """Use the embedded model of the two-player game everywhere instead of building others."""
    from srl_agents.llm import tiny

    def folder(make_env, **_):
        make_env()  # invalid environments still raise
        return Path(tiny_folder)

    monkeypatch.setattr(tiny, "folder", folder)


@pytest.fixture
def glimpse(monkeypatch):
    """Build embedded models with little pretraining, which often write unparsable answers."""
    from srl_agents.llm import tiny as model

    monkeypatch.setattr(model, "ROUNDS", 1)
    return partial(model.folder, steps=4, turns=1)


@pytest.fixture
def in_small(monkeypatch):
    """Return a function that overrides settings of every trainer, by dotted name."""
    from srl_train import trainer
    from srl_train.config import yaml_file

    build_run = trainer.build_run

    def settings_on_top(**settings):
        dotted = {name.replace("__", "."): value for name, value in settings.items()}

        def smaller(config, *parts):
            return build_run(yaml_file.from_tree(yaml_file.to_tree(config), dotted), *parts)

        monkeypatch.setattr(trainer, "build_run", smaller)

    return settings_on_top
