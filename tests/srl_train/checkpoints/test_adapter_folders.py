"""Training from a PEFT adapter: as an adapter, merged into its base, or refused."""

import json
import shutil

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM

from srl_agents.errors import BackendError
from srl_agents.llm.backends.token_backend import Request
from srl_agents.llm.sampling import Sampling
from srl_train.adapters import attach
from srl_train.errors import ConfigError
from srl_train.learners.trl_stepped import isolated_randomness
from srl_train.learners.upstream_warnings import quiet_upstream
from srl_train.round import train_round
from srl_train.trainer import Trainer

SAME = {"rank": 4, "alpha": 8.0}
CONTEXT = tuple(range(5, 25))


@pytest.fixture(scope="module")
def adapter(tiny_folder, tmp_path_factory):
    """Return the folder of a PEFT adapter of the embedded model with random weights."""
    folder = tmp_path_factory.mktemp("adapters") / "theirs"
    base = AutoModelForCausalLM.from_pretrained(tiny_folder)
    settings = LoraConfig(
        task_type="CAUSAL_LM", r=4, lora_alpha=8.0, target_modules="all-linear",
        init_lora_weights=False,
    )  # fmt: skip
    with isolated_randomness(1), quiet_upstream():
        get_peft_model(base, settings).save_pretrained(folder)
    return str(folder)


def logprobs(model):
    with torch.no_grad():
        return model(torch.tensor([CONTEXT])).logits.log_softmax(-1)


@pytest.fixture(scope="module")
def theirs(adapter, tiny_folder):
    return logprobs(loaded(tiny_folder, adapter))


def loaded(base, adapter):
    with quiet_upstream():
        model = AutoModelForCausalLM.from_pretrained(base)
        return PeftModel.from_pretrained(model, adapter).eval()


def started(config, tmp_path):
    return Trainer(config, tmp_path / "run").run


def test_training_starts_from_the_adapter(adapter, theirs, short_run, tmp_path, tiny_folder):
    run = started(short_run(models__base=adapter, models__adapters=SAME), tmp_path)
    for module in run.players.modules.values():
        torch.testing.assert_close(logprobs(module.eval()), theirs)
    bare = logprobs(AutoModelForCausalLM.from_pretrained(tiny_folder).eval())
    assert (theirs - bare).abs().max() > 0.1  # The adapter has an effect.
    # The sampler uses the trained module.
    request = Request(CONTEXT, Sampling(max_new_tokens=1), 0, adapter="model_1")
    [answer] = run.players.backends["model_1"].sample([request])
    assert answer.logprobs[0] == pytest.approx(theirs[0, -1, answer.ids[0]].item(), abs=1e-4)


def test_different_adapter_settings_are_refused(adapter, short_run, tmp_path):
    config = short_run(models__base=adapter, models__adapters={"rank": 8, "alpha": 8.0})
    says = "rank 4, .* differs from models.adapters .rank 8.*srl export .* --merge"
    with pytest.raises(ConfigError, match=says):
        started(config, tmp_path)


def test_adapter_is_merged_if_adapters_are_disabled(adapter, theirs, short_run, tmp_path, caplog):
    run = started(short_run(models__base=adapter), tmp_path)
    for module in run.players.modules.values():
        assert not isinstance(module, PeftModel)
        torch.testing.assert_close(logprobs(module.eval()), theirs, atol=1e-4, rtol=1e-4)
    assert "merged into its base" in caplog.text
    assert all(parameter.requires_grad for parameter in module.parameters())


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"peft_type": None}, "peft_type must be 'LORA', got None"),
        ({"megatron_config": {"a": 1}, "megatron_core": "antigravity"}, "megatron_config must be"),
        ({"rank_pattern": {"q_proj": 10**7}}, "whole numbers must be at most 65536"),
        ({"layers_to_transform": [0] * 2**20}, "more than 1048576 bytes"),
        ({"r": "many"}, "cannot load the adapter"),
    ],
)
def test_adapter_settings_out_of_bounds_are_refused(adapter, settings, says, tiny_folder, tmp_path):
    folder = tmp_path / "adapter"
    shutil.copytree(adapter, folder)
    file = folder / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))
    model = AutoModelForCausalLM.from_pretrained(tiny_folder)
    with pytest.raises(BackendError, match=says):
        attach(model, str(folder))


def test_adapters_share_only_equal_bases(adapter, theirs, tiny_folder, short_run, tmp_path):
    (tmp_path / "another").symlink_to(tiny_folder)
    bases = [adapter, str(tmp_path / "another")]
    config = short_run(models__base=bases, models__adapters=SAME)
    run = started(config, tmp_path)
    first, second = run.players.backends.values()
    assert first.model.get_base_model() is not second.model.get_base_model()
    torch.testing.assert_close(logprobs(run.players.modules["model_0"].eval()), theirs)
    row = train_round(run, 0).row
    assert all(own["updated"] for own in row["models"].values())
