"""Each error of docs/troubleshooting.md is produced with the message that the page shows."""

import json
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from srl_train import RunConfig, Trainer, cli

PAGE = Path(__file__).parents[2] / "docs" / "troubleshooting.md"
MESSAGES = dict(
    re.findall(r"^### (.+?)\n\n```text\n(.+?)\n```", PAGE.read_text("utf-8"), re.M | re.S)
)
CONFIG = {
    "environment": {"name": "coop_compete_pair_v0", "options": {"max_cycles": 2}},
    "models": {"count": 2, "base": "tiny"},
    "rollout": {"group_size": 2, "groups_per_round": 1},
    "logging": {"evaluation_episodes": 2},
    "rounds": 1,
}
SETTINGS = {
    "Unknown setting": "algorithm.learning_rat=1",
    "Groups and minibatches": "algorithm.minibatches=3",
    "Settings that exclude each other": "'algorithm={name: ppo}' credit.name=team_joint",
    "Unknown environment": "environment.name=coop_compet_v0",
    "Unknown option of an environment": "environment.options.num_agent=3",
    "Module not found": "environment.name=my_game:env",
    "No folder with this model": "models.base=./my_model",
    "No chat template": "models.base=./without_template",
    "More models than agents": "models.count=3",
    "Held-out partner": "seats.agent_0=pavlov models.count=1",
    "No GPU": "models.device=cuda",
    "Missing package": "engine.name=ray",
    "vLLM in another environment": "'backend={name: vllm, managed: {base_port: 8001}}'",
    "No API key": "models.frozen_models.coach=openai:gpt-5-mini seats.agent_0=coach models.count=1",
    "Context too short": "models.sampling.max_new_tokens=5000",
    "Nothing to learn": "environment.name=constant:env",
}
"""Heading -> settings of a run that ends with, or warns of, this error."""


def train(settings="", folder="runs/new", *options):
    Path("config.yaml").write_text(yaml.safe_dump(CONFIG))
    sets = [word for setting in shlex.split(settings) for word in ("--set", setting)]
    return ["train", "config.yaml", "--out", folder, *sets, *options]


def check(heading, printed):
    """Compare with the page, in which `...` matches any text."""
    pattern = ".*".join(re.escape(part) for part in MESSAGES[heading].split("..."))
    assert re.search(pattern, printed), printed


@pytest.fixture
def workplace(tmp_path, monkeypatch, tiny_folder):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    Path("constant.py").write_text(
        "from srl_envs import make\n"
        "from srl_envs.wrappers import CustomRewards\n"
        "def env(**options):\n"
        "    return CustomRewards(make('coop_compete_pair_v0', **options), lambda *_: 0.0)\n"
    )
    folder = Path(shutil.copytree(tiny_folder, "without_template"))
    settings = folder / "tokenizer_config.json"
    content = json.loads(settings.read_text())
    content.pop("chat_template", None)
    settings.write_text(json.dumps(content))
    (folder / "chat_template.jinja").unlink(missing_ok=True)


@pytest.mark.usefixtures("workplace")
@pytest.mark.parametrize("heading", [*SETTINGS])
def test_a_run_with_these_settings_ends_with_the_message(heading, capsys, monkeypatch):
    if heading == "Missing package":
        monkeypatch.setitem(sys.modules, "ray", None)
    if heading == "No GPU":
        monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert cli.main(train(SETTINGS[heading])) == (heading != "Nothing to learn") * 2
    check(heading, capsys.readouterr().err)


@pytest.mark.usefixtures("workplace")
def test_folders_that_contain_a_run(capsys):
    assert cli.main(train()) == 0
    capsys.readouterr()
    assert cli.main(train()) == 2
    check("The folder contains a run", capsys.readouterr().err)
    Path("config.yaml").write_text(yaml.safe_dump(CONFIG | {"seed": 1}))
    assert cli.main(["train", "config.yaml", "--resume", "--out", "runs/new"]) == 2
    check("Resumed with another configuration", capsys.readouterr().err)


@pytest.mark.usefixtures("workplace")
def test_a_folder_in_use(capsys):
    with Trainer(RunConfig(), run_dir="runs/new") as trainer:
        trainer.lock()
        Path("runs/new/run.lock").write_text("7")  # as if another process had locked the folder
        assert cli.main(train()) == 2
    check("The folder is in use", capsys.readouterr().err)


@pytest.mark.usefixtures("workplace")
def test_a_hub_that_cannot_be_reached(monkeypatch, capsys):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    assert cli.main(train("models.base=Qwen/Qwen3-0.6B-none")) == 2
    check("The hub cannot be reached", capsys.readouterr().err)


def test_every_entry_of_the_page_is_produced():
    others = {
        "The folder contains a run",
        "Resumed with another configuration",
        "The folder is in use",
        "The hub cannot be reached",
    }
    assert MESSAGES.keys() == SETTINGS.keys() | others
    assert len(MESSAGES) == 20
