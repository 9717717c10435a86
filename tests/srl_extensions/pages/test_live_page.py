"""Live page of a real run in a real browser."""

import json
import re
import time

import pytest
import yaml

from srl_train.metrics.sinks import JsonlSink
from tests.srl_extensions.pages.conftest import end, start, watching
from tests.srl_extensions.pages.synthetic_runs import row, write_run
from tests.srl_extensions.pages.test_page import HOSTILE

pytestmark = pytest.mark.browser
SIZES = {"desktop": (1100, 900), "phone": (360, 740)}
TRAINING = {
    "environment": {"name": "team_battle_v0", "options": {"max_cycles": 6, "warmup_episodes": 0}},
    "models": {"count": 2, "base": "tiny"},
    "rollout": {"group_size": 4, "groups_per_round": 2},
    "logging": {"evaluation_episodes": 8, "episodes_every": 1},
    "rounds": 400,
}


def rounds_told(text):
    """Return the number of complete rounds in the text of the page."""
    found = re.search(r"round (\d+) of", text)
    return int(found[1]) if found else 0


def test_watching_a_run_before_during_and_after_a_server_restart(tmp_path, open_page):
    config, folder = tmp_path / "run.yaml", tmp_path / "runs" / "live"
    config.write_text(yaml.safe_dump(TRAINING))
    with watching(tmp_path / "runs") as (address, server):
        watched = open_page(address)
        assert "No run is in" in watched.page.inner_text("main")
        training = start("train", config, "--out", folder, "--quiet")
        try:
            watched.page.wait_for_selector(".run", timeout=120_000)
            watched.page.click(".run")
            watched.page.wait_for_selector("canvas", timeout=120_000)
            late = [seconds_behind(watched.page, folder / "metrics.jsonl") for _ in range(3)]
            assert max(late) < 2, late
            assert watched.wrong == []
            assert all(asked.startswith(address) for asked in watched.asked)

            end(server)
            watched.page.wait_for_selector("text=does not answer", timeout=60_000)
            before = rounds_told(watched.page.inner_text("main"))
            with watching(tmp_path / "runs", port=int(address.split(":")[2].strip("/"))):
                watched.page.wait_for_selector(".light.live", timeout=60_000)
                watched.page.wait_for_function(
                    "before => Number(/round (\\d+) of/.exec(document.body.innerText)[1]) > before",
                    arg=before + 2, timeout=60_000,
                )  # fmt: skip
        finally:
            end(training)


def seconds_behind(page, metrics):
    """Return the seconds from the end of the next round until the page shows this round."""
    known = len(metrics.read_bytes().splitlines())
    while len(metrics.read_bytes().splitlines()) <= known:
        time.sleep(0.01)
    began = time.monotonic()
    page.wait_for_function(
        "wanted => Number(/round (\\d+) of/.exec(document.body.innerText)[1]) > wanted",
        arg=known, timeout=30_000, polling=20,
    )  # fmt: skip
    return time.monotonic() - began


def test_memory_with_twenty_thousand_rounds(tmp_path, open_page):
    """Tab and server need less than 200 MB each, and new rows appear."""
    folder = write_run(tmp_path / "run", rows=[row(n, rounds=20_000) for n in range(20_000)])
    with watching(folder) as (address, server):
        watched = open_page(address)
        watched.page.wait_for_selector("text=round 20000 of", timeout=120_000)
        sink = JsonlSink(folder / "metrics.jsonl")
        sink.write(row(20_000, rounds=20_000))
        sink.close()
        watched.page.wait_for_selector("text=round 20001 of", timeout=120_000)
        assert memory_of_tab(watched.page) < 200
        assert resident_megabytes(server.pid) < 200
        assert watched.wrong == []


def memory_of_tab(page):
    """Return the size of the tab's JavaScript heap in megabytes."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    found = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    return found["JSHeapTotalSize"] / 2**20


def resident_megabytes(pid):
    with open(f"/proc/{pid}/status") as file:
        [line] = [line for line in file if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


@pytest.mark.parametrize("size", SIZES)
def test_no_page_scrolls_sideways(tmp_path, open_page, size):
    long = "a_name_without_any_space_that_goes_on_" * 4
    write_run(tmp_path / "runs" / long)
    write_run(tmp_path / "runs" / "other")
    with watching(tmp_path / "runs") as (address, _):
        for path in ("", f"?run={long}", "?run=other"):
            watched = open_page(address + path, *SIZES[size])
            watched.page.wait_for_timeout(500)
            assert watched.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert watched.wrong == []


def test_hostile_text_on_the_live_page(tmp_path, open_page):
    rows = [row(number) | {"warnings": [HOSTILE], "mode": HOSTILE} for number in range(3)]
    for one in rows:
        one["models"] = {f"{name}{HOSTILE}": own for name, own in one["models"].items()}
        one["environment"]["name"] = HOSTILE
    folder = write_run(tmp_path / "runs" / "evil <script>alert(1)</script>", rows=rows)
    (folder / "config.yaml").write_text(f"environment: {json.dumps(HOSTILE)}\nrounds: 3\n")
    with watching(tmp_path / "runs") as (address, _):
        watched = open_page(address)
        title = watched.page.title()
        watched.page.click(".run")
        watched.page.wait_for_selector(".notes li", timeout=20_000)
        watched.page.wait_for_timeout(500)
        assert watched.page.locator("main img, main script").count() == 0
        assert "<img src=x" in watched.page.inner_text("main")
        assert "run" not in (title, watched.page.title())
        assert "\u202e" not in watched.page.content() and "\x1b" not in watched.page.content()
        assert watched.wrong == []
        assert all(asked.startswith(address) for asked in watched.asked)
