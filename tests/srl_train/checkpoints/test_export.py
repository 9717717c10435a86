"""Trained models as others load them: with plain transformers and PEFT, and on the hub."""

import shutil

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from srl_train import export as exporting
from srl_train.cli import main
from srl_train.learners.upstream_warnings import quiet_upstream
from srl_train.trainer import Trainer

CONTEXT = torch.tensor([list(range(5, 25))])


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tiny_folder):
    """(kind -> the folder of a run of one round, model -> its log-probabilities)."""
    from srl_train.config.yaml_file import from_tree

    found = {}
    for kind, adapters in (("whole", None), ("adapters", {"rank": 2})):
        config = from_tree({
            "environment": {"name": "coop_compete_pair_v0", "options": {"max_cycles": 2}},
            "models": {"count": 2, "base": tiny_folder, "adapters": adapters},
            "rollout": {"group_size": 4, "groups_per_round": 1},
            "algorithm": {"learning_rate": 0.05},
            "logging": {"evaluation_episodes": 0, "episodes": 0},
            "rounds": 1,
        })  # fmt: skip
        trainer = Trainer(config, tmp_path_factory.mktemp("runs") / kind)
        trainer.fit()
        modules = trainer.run.players.modules
        found[kind] = trainer.files, {n: logprobs(m.eval()) for n, m in modules.items()}
    return found


def logprobs(model):
    with torch.no_grad():
        return model(CONTEXT).logits.log_softmax(-1)


def whole(folder):
    with quiet_upstream():
        return AutoModelForCausalLM.from_pretrained(folder).eval()


@pytest.mark.parametrize("saved", ["run", "checkpoint"])
@pytest.mark.parametrize(
    ("kind", "flags"), [("whole", []), ("adapters", []), ("adapters", ["--merge"])]
)
def test_what_is_exported_is_the_policy_that_was_trained(
    kind, flags, saved, trained, tiny_folder, tmp_path, capsys
):
    files, wanted = trained[kind]
    place = files.folder
    if saved == "checkpoint":
        [place] = files.checkpoints.iterdir()
    out = tmp_path / "out"
    assert main(["export", f"{place}:model_1", str(out), *flags]) == 0
    if kind == "adapters" and not flags:
        with quiet_upstream():
            model = PeftModel.from_pretrained(whole(tiny_folder), out).eval()
    else:
        assert not (out / "adapter_config.json").exists()
        model = whole(out)
    torch.testing.assert_close(logprobs(model), wanted["model_1"], atol=1e-4, rtol=1e-4)
    tokenizer = AutoTokenizer.from_pretrained(out)
    assert tokenizer.chat_template == AutoTokenizer.from_pretrained(tiny_folder).chat_template
    assert not list(tmp_path.glob(".*"))


def test_all_models_of_a_run_are_exported_side_by_side(trained, tmp_path, capsys):
    files, wanted = trained["whole"]
    assert main(["export", str(files.folder), str(tmp_path / "out")]) == 0
    for name, expected in wanted.items():
        torch.testing.assert_close(logprobs(whole(tmp_path / "out" / name)), expected)


@pytest.mark.parametrize("kind", ["whole", "adapters"])
def test_saved_models_say_what_they_are(kind, trained, tiny_folder):
    files, _ = trained[kind]
    card = (files.models / "model_0" / "README.md").read_text()
    assert "[More Information Needed]" not in card
    assert "coop_compete_pair_v0" in card and "grpo, 1 rounds of 4 games" in card
    assert tiny_folder in card and "base_model:" not in card  # nobody else has that folder
    assert ("AutoPeftModelForCausalLM" in card) == (kind == "adapters")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tiny", "OUT"], "tiny has no weights of its own"),
        (["WHOLE:model_0", "OUT", "--merge"], "nothing to merge"),
        (["WHOLE", "OUT", "--push-to-hub", "a/b"], "takes one model: give"),
        (["WHOLE:model_0", "OUT", "--private"], "--private is read with"),
        (["WHOLE:model_0", "WHOLE"], "is there already"),
        (["ADAPTERS:model_0", "OUT", "--push-to-hub", "a/b"], "export it anew with --merge"),
    ],
)
def test_what_cannot_be_exported_is_refused(words, message, trained, tmp_path, capsys):
    places = {"WHOLE": trained["whole"][0].folder, "ADAPTERS": trained["adapters"][0].folder,
              "OUT": tmp_path / "out"}  # fmt: skip
    for name, place in places.items():
        words = [word.replace(name, str(place)) for word in words]
    assert main(["export", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_run_whose_configuration_is_damaged_is_refused_in_one_line(trained, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(trained["whole"][0].folder, run)
    for text in ("models: {base: 5}", "models: 5", "rollout: {group_size: x}"):
        (run / "config.yaml").write_text(text)
        assert main(["export", f"{run}:model_0", str(tmp_path / "out")]) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert line.startswith("srl: error: ")
        assert not (tmp_path / "out").exists()


class Hub:
    """What is used of huggingface_hub.HfApi."""

    def __init__(self, error=None):
        self.asked, self.error = [], error

    def create_repo(self, repository, **how):
        if self.error:
            raise self.error
        self.asked.append((repository, how))
        return f"https://huggingface.co/{repository}"

    def upload_folder(self, **how):
        self.asked.append(how)


def test_pushing_uploads_the_folder(trained, tmp_path, monkeypatch, capsys):
    hub, out = Hub(), tmp_path / "out"
    monkeypatch.setattr(exporting, "HfApi", lambda: hub)
    run = trained["adapters"][0].folder
    words = ["export", f"{run}:model_0", str(out), "--merge", "--push-to-hub", "me/it", "--private"]
    assert main(words) == 0
    (repository, how), upload = hub.asked
    assert repository == "me/it" and how["private"] and how["exist_ok"]
    assert upload["repo_id"] == "me/it" and upload["folder_path"] == out
    assert "pushed: https://huggingface.co/me/it" in capsys.readouterr().out


@pytest.mark.parametrize("error", [OSError("no route\nto it"), ValueError("a bad name")])
def test_a_hub_that_refuses_is_one_line_and_the_model_is_there(
    error, trained, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(exporting, "HfApi", lambda: Hub(error))
    run, out = trained["whole"][0].folder, tmp_path / "out"
    assert main(["export", f"{run}:model_0", str(out), "--push-to-hub", "me/it"]) == 2
    told = capsys.readouterr().err
    assert "cannot push to me/it" in told and f"the model is in {out}" in told
    assert len(told.strip().splitlines()) == 1
    assert (out / "config.json").is_file()
