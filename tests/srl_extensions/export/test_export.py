"""Exported models load with transformers and PEFT."""

import shutil

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from srl_train.cli import main
from srl_train.learners.upstream_warnings import quiet_upstream
from srl_train.trainer import Trainer

CONTEXT = torch.tensor([list(range(5, 25))])


@pytest.fixture(scope="module")
def trained(tmp_path_factory, short_run):
    """(kind -> the folder of a run of one round, model -> its log-probabilities)."""
    found = {}
    for kind, adapters in (("whole", None), ("adapters", {"rank": 2})):
        config = short_run(
            models__adapters=adapters, algorithm__learning_rate=0.05, checkpoints__every=1, rounds=1
        )
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


@pytest.mark.parametrize(
    ("kind", "flags", "saved"),
    [
        ("whole", [], "run"),
        ("whole", [], "checkpoint"),
        ("adapters", [], "checkpoint"),
        ("adapters", ["--merge"], "run"),
    ],
)
def test_exported_model_equals_the_trained_policy(
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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tiny", "OUT"], "hub name, got tiny"),
        (["WHOLE:model_0", "OUT", "--merge"], "--merge requires an adapter"),
        (["WHOLE:model_0", "WHOLE"], "already exists"),
    ],
)
def test_export_refuses_wrong_arguments(words, message, trained, tmp_path, capsys):
    places = {"WHOLE": trained["whole"][0].folder, "OUT": tmp_path / "out"}
    for name, place in places.items():
        words = [word.replace(name, str(place)) for word in words]
    assert main(["export", *words]) == 2
    assert message in capsys.readouterr().err


def test_export_of_a_run_with_damaged_configuration_prints_one_line(trained, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(trained["whole"][0].folder, run)
    (run / "config.yaml").write_text("models: 5")
    assert main(["export", f"{run}:model_0", str(tmp_path / "out")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("srl: error: ")
    assert not (tmp_path / "out").exists()
