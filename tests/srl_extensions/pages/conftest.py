"""Fixtures: a browser, and the server of the live page in a separate process."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def start(*arguments: object) -> subprocess.Popen[str]:
    """Start `srl` with these arguments and its output in a pipe."""
    return subprocess.Popen(
        [sys.executable, "-m", "srl_train.cli", *map(str, arguments)],
        cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def end(process: subprocess.Popen[str]) -> None:
    """Terminate the process, and close its pipe."""
    process.terminate()
    process.communicate(timeout=60)


@contextlib.contextmanager
def watching(*arguments: object, port: int = 0) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Yield the address and the process of `srl watch`."""
    process = start("watch", *arguments, "--port", port)
    try:
        told = ""
        while (found := re.search(r"http://\S+", told)) is None:
            told = process.stdout.readline()
            assert told, "srl watch ended"
        yield found[0], process
    finally:
        if process.poll() is None:
            end(process)


class Watched:
    """Browser page with its errors and requests."""

    def __init__(self, page) -> None:
        self.page = page
        self.wrong: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda one: self.wrong.append(one.text) if one.type == "error" else None)
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("dialog", lambda one: (self.wrong.append(f"dialog {one.message}"), one.dismiss()))
        page.on("request", lambda one: self.asked.append(one.url))


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="make test-browser installs it")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with playwright.sync_playwright() as tools:
        found = tools.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def open_page(browser):
    """Return a function that opens an address in a new browser context."""
    with contextlib.ExitStack() as contexts:

        def opened(address: str, width: int = 1100, height: int = 900) -> Watched:
            context = browser.new_context(viewport={"width": width, "height": height})
            contexts.callback(context.close)
            watched = Watched(context.new_page())
            watched.page.goto(address)
            watched.page.wait_for_selector("h1", timeout=120_000)
            return watched

        yield opened
