"""`srl collect` on tasks and debates: groups of one problem, what is kept, and learning from it."""

import pytest

from srl_agents.episode import read_jsonl
from srl_extensions.offline.data import read_episodes
from srl_train.cli import main
from srl_train.config.yaml_file import from_tree
from srl_train.trainer import Trainer


def collect(out, environment, options, *words):
    told = [f"environment.options.{name}={value}" for name, value in options.items()]
    settings = [word for setting in told for word in ("--set", setting)]
    command = ["collect", "--environment", environment, *settings, *words, "--out", out]
    assert main([str(word) for word in command]) == 0
    return list(read_jsonl(out)) if out.stat().st_size else []


def imitated(folder, environment, options, data, base, **sft):
    """What SFT on the file was made of."""
    tree = {
        "environment": {"name": environment, "options": options},
        "models": {"count": 1, "base": base, "sampling": {"max_new_tokens": 8}},
        "sft": {"data": [str(data)], "epochs": 2, "batch_size": 4, **sft},
        "checkpoints": {"every": 0},
        "logging": {"evaluation_episodes": 0, "episodes": 0},
        "rounds": 0,
    }
    [stage] = Trainer(from_tree(tree), folder).fit()["stages"]
    return stage


@pytest.mark.parametrize(
    ("environment", "options", "seats"),
    [
        ("math_v0", {"families": "arithmetic", "difficulty": 1}, ["agent_0"]),
        ("debate_v0", {"debate_rounds": 1}, ["pro_0", "con_0"]),
    ],
)
def test_every_kind_of_text_is_collected_and_imitated(
    environment, options, seats, tmp_path, tiny_folder
):
    words = ["--players", tiny_folder, "--episodes", 2]
    short = ["--set", "models.sampling.max_new_tokens=8"]
    path = tmp_path / "games.jsonl"
    games = collect(path, environment, options, *words, *short)
    assert len(games) == len(read_episodes(path, environment, seats)) == 2
    assert all(step.decision.text is not None for game in games for step in game.turns[0])
    # Nothing was read perhaps, so that there would be nothing to imitate.
    stage = imitated(
        tmp_path / "run",
        environment,
        options,
        path,
        tiny_folder,
        drop_parse_failures=False,
        seats="all",
    )
    assert stage["models"]["model_0"]["samples"] == 2 * len(seats)
