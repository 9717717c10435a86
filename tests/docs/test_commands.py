"""The documented `srl` commands run with fewer and shorter episodes, except PARSED_ONLY."""

import io
import re
import shutil
from pathlib import Path

import pytest
import yaml

from srl_train import RunConfig, Trainer, cli
from tests.docs.test_snippets import ROOT, commands, fenced

DOCS = ROOT / "docs"
MODULES = {
    "mybot.py": "agents/own_opponent.md",
    "stag_hunt.py": "tutorials/own_environment.md",
    "my_questions.py": "environments/own_data.md",
}
"""File of a user -> page whose first Python block is its content."""
PARSED_ONLY = (
    "openai:", "anthropic:", "srl serve", "srl watch", "ray.yaml", "gemma", "tensorboard",
    "served.yaml", "my_games", "runs/sums", "runs/questions", "runs/adapters", "code", "math",
    "runs/a", "runs/grpo_0", "runs/g0", "runs/g_battle_0", "srl replay runs/demo/episodes",
)  # fmt: skip
SMALL = {
    "environment__options__max_cycles": 2,
    "rollout__group_size": 2,
    "rollout__groups_per_round": 1,
    "algorithm__minibatches": 1,
    "logging__evaluation_episodes": 2,
    "models__sampling__max_new_tokens": 4,
}
RUN = {
    "environment": {"name": "coop_compete_v0", "options": {"num_agents": 4, "max_cycles": 2}},
    "models": {"count": 4, "base": "tiny"},
    "rollout": {"group_size": 2, "groups_per_round": 1},
    "logging": {"evaluation_episodes": 2},
    "rounds": 11,
}


def runs():
    seen = {}
    for command in commands():
        line = " ".join(command.values[0])
        if line.startswith("srl ") and not any(part in line for part in PARSED_ONLY):
            seen.setdefault(line, command.values[0])
    return [pytest.param(words, id=line) for line, words in seen.items()]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Folder of a finished run with four models."""
    folder = tmp_path_factory.mktemp("finished") / "demo"
    with Trainer(RunConfig(**RUN), run_dir=folder) as trainer:
        trainer.fit()
    return folder


def short(words):
    """Return the words with fewer episodes and rounds."""
    fewer = {"--group-size": "2"}
    shorter = [fewer.get(before, word) for before, word in zip(["", *words], words, strict=False)]
    if words[1] in ("eval", "crossplay", "exploit", "collect") and "--list" not in words:
        shorter += ["--episodes", "2"]  # the last one counts
    return [word if not word.startswith("rounds=") else "rounds=1" for word in shorter]


def inputs(words):
    """Return the folders of runs that a command reads."""
    resumes = "--resume" in words
    for before, word in zip(["", *words], words, strict=False):
        if before != "--out" or resumes or words[1] != "train":
            for part in word.replace("=", ":").split(":"):
                if part.startswith("runs/"):
                    yield "/".join(part.split("/")[:2])


@pytest.mark.slow
@pytest.mark.parametrize("words", runs())
def test_a_command_runs(words, tmp_path, monkeypatch, in_small, finished, tiny_folder):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO("q\n"))
    for folder in ("examples", "benchmarks"):
        Path(folder).symlink_to(ROOT / folder)
    for name, page in MODULES.items():
        Path(name).write_text(fenced(DOCS / page, "python")[0])
    Path("config.yaml").write_text(yaml.safe_dump({**RUN, "rounds": 1}))
    for run in inputs(words):
        if not Path(run).exists():
            shutil.copytree(finished, run)
            seed = run[-1] if run[-1].isdigit() else "0"
            settings = Path(run, "config.yaml")
            settings.write_text(re.sub(r"(?m)^seed: 0$", f"seed: {seed}", settings.read_text()))
    in_small(**({} if "--resume" in words else SMALL))
    words = [word.replace("path/to/model", str(tiny_folder)) for word in short(words)]
    assert cli.main(words[1:]) == 0
