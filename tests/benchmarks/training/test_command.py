"""The command, and the thresholds of every claim in its table."""

import copy
import json

import pytest

from benchmarks import records
from benchmarks.repeats import Estimate
from benchmarks.training import __main__ as command
from benchmarks.training import claims
from benchmarks.training.claim import Claim, Curves, Result, Table, Target
from benchmarks.training.federated import claims as federated
from benchmarks.training.repairs import compared, turns
from srl_train.config import yaml_file
from srl_train.errors import ConfigError

SCORES = ("solved", "surplus", "right")


def end(share, **more):
    """What an exam of any of the tasks may give."""
    return {**{name: Estimate(share, 0.01) for name in SCORES}, "least": share, **more}


ROW = {
    "seed": 0, "trained_and_asked": 0, "cpu_seconds": 599.0,
    "not_conserved": 0,
}  # fmt: skip
KEY = {
    "part": "key", "times_per_agent": 3.0, "times_agent_turn": 3.0, "fewer_difference": 3.0,
    "fewer_counterfactual": 3.0, "fewer_branching": 1.5,
}  # fmt: skip
ALIGNED = {"part": "dilemma", "credit": "advantage_alignment", "more": 0.26}
MODEL = {"part": "model", "before": 0.49, "after": 0.9}
FULL = {"kind": "full", "way": 0.97, "of_full": 1.0, "training_seconds": 59.0, "peak_gb": 2.9}
LORA = {**FULL, "kind": "LoRA", "way": 0.0, "of_full": 0.95, "training_seconds": 99.0}
LARGE = {"base": "Qwen2", "large": True, "count": 8, "times": {"rss": 1.29, "tensors": 1.29}}
OURS = {"side": "our rounds without the play", "overhead": 0.0, "difference": 0.0}
LOOP = {**OURS, "side": "GRPOTrainer.train(), its loop alone", "overhead": 0.149}
GRPO = {"variant": "GRPO", "gain": 0.1, "below_grpo": 0.0}
FALLS = {"method": "moving reference", "judged": "newest", "of_plain": 0.49, "falls": 0.001}
ROCK = {**FALLS, "game": "biased rock-paper-scissors"}
POKER = {**FALLS, "game": "Kuhn poker"}
# Claim -> rows that just hold, then for each target a change of one row that just misses it.
THRESHOLDS = {
    "maze": ([{**ROW, "after": end(0.80)}], [
        (0, {"after": end(0.79)}), (0, {"trained_and_asked": 1}), (0, {"cpu_seconds": 601.0}),
    ]),
    "trading": ([{**ROW, "after": end(0.70)}], [
        (0, {"after": end(0.69)}), (0, {"not_conserved": 1}), (0, {"cpu_seconds": 601.0}),
    ]),
    "arithmetic": ([{**ROW, "before": end(0.19), "after": end(0.90)}], [
        (0, {"before": end(0.20)}), (0, {"after": end(0.89)}), (0, {"trained_and_asked": 1}),
        (0, {"cpu_seconds": 601.0}),
    ]),
    "tools": ([{**ROW, "after": end(0.80)}], [
        (0, {"after": end(0.79)}), (0, {"trained_and_asked": 1}), (0, {"cpu_seconds": 601.0}),
    ]),
    "served": ([{"variant": "vllm", "apart": 0.02, "divergence": 1e-4, "failed": 0}], [
        (0, {"apart": 0.021}), (0, {"divergence": 2e-4}), (0, {"failed": 1}),
    ]),
    "several_tasks": ([{"task": "sums", "beyond_chance": 0.01}], [(0, {"beyond_chance": 0.0})]),
    "algorithms_maze": ([GRPO, {**GRPO, "variant": "PPO", "below_grpo": 0.05}], [
        (0, {"gain": 0.0}), (1, {"below_grpo": 0.06}),
    ]),
    "offline": ([{"game": "maze", "variant": "SFT", "gain": 0.1}], [(0, {"gain": 0.0})]),
    "team_battle": ([
        {"variant": "cooperative", "after": end(0.80)},
        {"variant": "competitive", "below_cooperative": 0.06},
    ], [(0, {"after": end(0.79)}), (1, {"below_cooperative": 0.05})]),
    "demo_seeds": ([FULL, LORA], [
        (0, {"way": 0.96}), (1, {"of_full": 0.94}), (0, {"training_seconds": 60.0}),
        (1, {"peak_gb": 3.1}),
    ]),
    "adapter_memory": ([LARGE], [
        (0, {"times": {"rss": 1.3, "tensors": 1.0}}), (0, {"times": {"rss": 1.0, "tensors": 1.3}}),
    ]),
    "scaling": ([{"count": 1, "times": 1.0}, {"count": 8, "times": 8.8}], [(1, {"times": 8.9})]),
    "round_cost": ([OURS, LOOP], [(1, {"overhead": 0.15}), (0, {"difference": 1e-5})]),
    "asynchronous": ([{
        "free_ratio": 0.7, "speedup": 1.2, "most_lag": 1, "dropped": 0, "apart": 0.1,
        "pace_ratio": 0.9,
    }], [
        (0, {"free_ratio": 0.71}), (0, {"speedup": 1.19}), (0, {"most_lag": 2}),
        (0, {"dropped": 1}), (0, {"apart": 0.11}), (0, {"pace_ratio": 0.89}),
    ]),
    "ray": ([{
        "engine": "Ray, play ahead", "speedup": 1.2, "oldest": 1.0, "dropped": 0, "apart": 0.03,
    }], [
        (0, {"speedup": 1.19}), (0, {"oldest": 2.0}), (0, {"dropped": 1}), (0, {"apart": 0.031}),
    ]),
    "credit": ([KEY, ALIGNED, MODEL], [
        (0, {"times_per_agent": 2.9}), (0, {"times_agent_turn": 2.9}),
        (0, {"fewer_difference": 2.9}), (0, {"fewer_counterfactual": 2.9}),
        (0, {"fewer_branching": 1.4}), (1, {"more": 0.25}),
        (2, {"before": 0.5}), (2, {"after": 0.89}),
    ]),
    "named_algorithms": ([
        {"part": "run", "game": "when", "sees": True, "gain": 0.1},
        {"part": "game", "game": "when", "highest": 0.94, "apart": 0.01},
    ], [(0, {"gain": 0.0}), (1, {"highest": 0.95}), (1, {"apart": 0.0})]),
    "federated_communication": ([
        {"variant": federated.PLAIN, "share": 0.1, "loss": 0.01},
        {"variant": federated.PLAIN, "share": 0.1, "loss": -0.01},
        {"variant": federated.DILOCO, "share": 0.1, "loss": 0.01},
        {"variant": federated.DILOCO, "share": 0.1, "loss": -0.01},
        {"variant": federated.NEVER, "loss": 0.3},
    ], [
        (0, {"share": 0.11}), (1, {"loss": 0.05}), (0, {"loss": 0.1}),
        (2, {"share": 0.11}), (3, {"loss": 0.05}), (2, {"loss": 0.1}), (4, {"loss": 0.29}),
    ]),
    "accelerator": ([{"count": 8, "width": 2048, "of_one": 1.29}], [(0, {"of_one": 1.3})]),
    "vocabulary": ([{"side": "ours", "least_faster": 3.0, "memory": 0.5}], [
        (0, {"least_faster": 2.9}), (0, {"memory": 0.51}),
    ]),
    "learner_repairs": ([
        {"what": turns.BUDGET, "found": 1.0}, {"what": turns.NEVER_ASKED, "beyond": 0},
        {"case": turns.FORCED, "found": 0.0}, {"case": turns.ENTROPY, "off": 0.09},
        {"default": True, "found": 0.25}, {"what": compared.WAITS, "found": 6.0},
        {"what": compared.BY_ROLE, "off": 0.14}, {"what": compared.BEST, "found": 0.25},
        *({"what": compared.PUSH, "case": name, "found": found}
          for name in compared.PARTNERS for found in (0.01, -0.01)),
    ], [
        (0, {"found": 0.99}), (1, {"beyond": 1}), (2, {"found": 0.01}), (3, {"off": 0.1}),
        (4, {"found": 0.26}), (5, {"found": 7.0}), (6, {"off": 0.15}),
        *((place, {"found": 0.05}) for place in (8, 10, 12)),
        (7, {"found": 0.3}),
    ]),
    "our_method_llm": ([], []),
    "zero_sum": ([ROCK, POKER], [
        (0, {"of_plain": 0.5}), (1, {"falls": 0.0}),
    ]),
}  # fmt: skip


@pytest.mark.parametrize("name", THRESHOLDS)
def test_every_target_can_be_just_met_and_just_missed(name):
    good, misses = THRESHOLDS[name]
    claim = claims.load(name)
    assert len(misses) == len(claim.targets)
    assert all(check.held for check in claim.checks(Result(good)))
    for target, (place, change) in zip(claim.targets, misses, strict=True):
        rows = copy.deepcopy(good)
        rows[place] |= change
        every = rows if target.over_seeds else [*good, *rows]
        missed = [check for check in claim.checks(Result(every)) if not check.held]
        assert [check.claim for check in missed] == [target.claim.format_map(rows[place])]


@pytest.mark.parametrize("name", claims.CLAIMS)
def test_every_claim_is_found_and_has_thresholds_above(name):
    assert isinstance(claims.load(name), Claim)
    assert name in THRESHOLDS or name.startswith("algorithms_")


@pytest.fixture
def own_claim(monkeypatch, tmp_path):
    """A claim that measures nothing but its request."""
    asked = []

    def measure(request):
        asked.append(request)
        if request.overrides.get("rounds") == 0:
            raise ConfigError("rounds: at least 1")
        x = request.overrides.get("x", 1.0)
        return Result([{"seed": seed, "x": x, "curve": [0.0, x]} for seed in request.seeds])

    claim = Claim(measure, [Table({"seed": "{seed}", "x": "{x:.1f}"})],
                  [Target("x is positive", "x", ">", 0.0)], seeds=(0, 1), games=9,
                  figure=Curves("x", by="seed"))  # fmt: skip
    monkeypatch.setattr(claims, "load", lambda name: claim)
    monkeypatch.setattr(records, "_commit", lambda: "0123abc")
    return asked


def test_a_claim_is_measured_printed_and_kept(own_claim, tmp_path, capsys):
    docs, record = tmp_path / "results.md", tmp_path / "maze.json"
    docs.write_text("above\n<!-- maze: begin -->\nold\n<!-- maze: end -->\nbelow\n")
    picture = tmp_path / "x.png"
    words = [
        "maze",
        "--set",
        "algorithm.clip_range=0.1",
        "--json",
        str(record),
        "--docs",
        str(docs),
    ]
    assert command.main([*words, "--figure", str(picture)]) == 0
    [request] = own_claim
    assert (request.seeds, request.games, request.overrides) == (
        (0, 1),
        9,
        {"algorithm.clip_range": 0.1},
    )
    assert "| 1 | 1.0 |" in capsys.readouterr().out
    assert json.loads(record.read_text())["result"]["rows"][0]["x"] == 1.0
    text = docs.read_text()
    assert "old" not in text and "at commit 0123abc" in text and "- held: x is pos" in text
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_missed_target_is_the_exit_code(own_claim, capsys):
    assert command.main(["maze", "--seeds", "3", "--games", "2", "--set", "x=-1.0"]) == 1
    assert own_claim[0].seeds == [3] and own_claim[0].games == 2
    assert "NOT HELD: x is positive (-1.0)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "invalid choice: 'nothing'"),
        (["maze", "--out", "x"], "--out means nothing to maze"),
        (["maze", "--seeds", "-1"], "'-1' is no whole number"),
        (["maze", "--games", "1"], "1 is too few"),
        (["maze", "--set", "rounds"], "--set 'rounds': give KEY=VALUE"),
        (["maze", "--set", "rounds=0"], "rounds: at least 1"),
    ],
)
def test_what_makes_no_sense_is_one_line(words, message, own_claim, capsys):
    with pytest.raises(SystemExit) as end:
        command.main(words)
    assert end.value.code == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    "words",
    [["round_cost", "--seeds", "0"], ["credit", "--games", "9"], ["maze", "--figure", "x.png"]],
)
def test_an_option_that_would_do_nothing_is_refused(words, capsys):
    with pytest.raises(SystemExit):
        command.main(words)
    assert f"{words[1]} means nothing to {words[0]}" in capsys.readouterr().err


def test_the_claims_are_listed(capsys):
    with pytest.raises(SystemExit) as end:
        command.main(["--list"])
    assert end.value.code == 0
    assert len(capsys.readouterr().out.splitlines()) == len(claims.CLAIMS)


@pytest.mark.parametrize("example", ["maze", "math", "tool_use"])
def test_training_problems_are_those_of_the_training_split(example):
    options = yaml_file.load(records.CONFIGS / f"{example}.yaml").environment.options
    assert "split" not in options and "level_seed" not in options
