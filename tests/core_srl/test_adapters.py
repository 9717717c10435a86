"""LoRA adapters on one base: each its own make, versions and weights, also while they answer."""

import threading

import pytest
import torch

from core_srl import LoRAConfig, create_lora_manager
from srl_agents.event_loop import run
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_train.adapters import attach
from srl_train.errors import ConfigError
from tests.core_srl.weights import asked, logprobs_of, other_weights

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated"),
]


@pytest.fixture
def manager(tiny_folder):
    configs = {
        0: LoRAConfig(lora_id=0),
        3: LoRAConfig(lora_id=3, rank=4, alpha=8.0, target_modules=["up_proj", "q_proj"]),
    }
    return create_lora_manager(configs, base=tiny_folder, device="cpu")


def alone(tiny_folder, folder):
    """The base with the folder's adapter, by PEFT itself."""
    return attach(HuggingFaceBackend.load(tiny_folder, device="cpu").model, str(folder)).eval()


def test_adapters_have_their_own_settings(manager):
    first, second = (manager.backend.model.peft_config[name] for name in ("lora_0", "lora_3"))
    assert (first.r, first.lora_alpha, first.lora_dropout) == (16, 32.0, 0.1)
    assert set(first.target_modules) == {"q_proj", "v_proj", "k_proj", "o_proj"}
    assert (second.r, second.lora_alpha) == (4, 8.0)
    assert not any(own.requires_grad for own in manager.backend.model.parameters())
    assert not any(module.training for module in manager.backend.model.modules())
    _, [plain, one, other] = run(asked(manager.backend, "__base__", "lora_0", "lora_3"))
    assert plain.logprobs == pytest.approx(one.logprobs, abs=1e-6), "B is zero at first"
    assert plain.logprobs == pytest.approx(other.logprobs, abs=1e-6)


def test_new_weights_answer_under_a_new_version_for_their_adapter_alone(manager, tiny_folder):
    _, before = run(asked(manager.backend, "lora_0", "lora_3"))
    weights = other_weights(manager, 3, seed=1)
    assert manager.swap(3, weights) == 1
    _, after = run(asked(manager.backend, "lora_0", "lora_3"))
    assert [str(one.model).rpartition("/")[2] for one in after] == ["lora_0@0", "lora_3@1"]
    assert after[0].logprobs == before[0].logprobs
    assert after[1].logprobs != before[1].logprobs
    for name, own in manager.weights(3).items():
        assert torch.equal(own, weights[name])
    status = manager.get_lora_status()
    assert {lora_id: one["version"] for lora_id, one in status.items()} == {0: 0, 3: 1}


def test_saved_adapter_equals_the_sampled_one(manager, tiny_folder, tmp_path):
    manager.swap(3, other_weights(manager, 3, seed=1))
    assert manager.save(3, tmp_path / "three") == 1
    assert not [path for path in tmp_path.iterdir() if path.name != "three"]
    prompt, [said] = run(asked(manager.backend, "lora_3"))
    expected = logprobs_of(alone(tiny_folder, tmp_path / "three"), prompt, said.ids)
    assert list(said.logprobs) == pytest.approx(expected.tolist(), abs=1e-4)
    with pytest.raises(ConfigError, match="three already exists"):
        manager.save(3, tmp_path / "three")
    assert manager.get_lora_status()[0]["version"] == 0


def test_adapters_can_be_added_while_sampling(manager):
    run(asked(manager.backend, "lora_0"))
    manager.swap(0, other_weights(manager, 0, seed=1))
    _, [before] = run(asked(manager.backend, "lora_0"))
    manager.make(LoRAConfig(lora_id=7, rank=2, target_modules=["down_proj"]))
    _, [again, new, base] = run(asked(manager.backend, "lora_0", "lora_7", "__base__"))
    assert again.logprobs == pytest.approx(before.logprobs, abs=1e-5)
    assert new.logprobs == pytest.approx(base.logprobs, abs=1e-6)
    assert str(new.model).endswith("lora_7@0")
    with pytest.raises(ConfigError, match="lora_id must be new, got 7"):
        manager.make(LoRAConfig(lora_id=7))
    with pytest.raises(ConfigError, match=r"target_modules: .* got .*q_porj"):
        manager.make(LoRAConfig(lora_id=8, target_modules=["q_porj"]))
    assert [*manager.configs] == [0, 3, 7]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda weights: dict(list(weights.items())[1:]), "names"),
        (lambda weights: {n: t[:1] for n, t in weights.items()}, ".*shape"),
        (lambda weights: {n: t / 0 for n, t in weights.items()}, ".*finite"),
    ],
)
def test_invalid_weights_change_nothing(wrong, told, manager):
    before = manager.weights(3)
    with pytest.raises(ConfigError, match=f"weights of lora_3.*{told}"):
        manager.swap(3, wrong(other_weights(manager, 3, seed=1)))
    assert all(torch.equal(own, before[name]) for name, own in manager.weights(3).items())
    assert manager.get_lora_status()[3]["version"] == 0


def test_concurrent_swaps_never_mix_versions(manager, tiny_folder, tmp_path):
    told = []
    manager.on_version = told.append
    sets = [manager.weights(3), *(other_weights(manager, 3, seed) for seed in range(20))]
    done = threading.Event()

    def swap():
        for weights in sets[1:]:
            manager.swap(3, weights)
        done.set()

    thread = threading.Thread(target=swap)
    thread.start()
    said = []
    while not done.is_set():
        prompt, [one] = run(asked(manager.backend, "lora_3", seed=len(said)))
        said.append(one)
    thread.join()
    _, [last] = run(asked(manager.backend, "lora_3"))
    assert told == [3] * 20
    assert last.model.version == 20
    manager.save(3, tmp_path / "three")
    judge = alone(tiny_folder, tmp_path / "three")
    held = dict(judge.named_parameters())
    for one in [*said, last]:
        with torch.no_grad():
            for name, tensor in sets[int(one.model.version)].items():
                head, _, weight = name.rpartition(".")
                held[f"{head}.default.{weight}"].copy_(tensor)
        expected = logprobs_of(judge, prompt, one.ids)
        assert list(one.logprobs) == pytest.approx(expected.tolist(), abs=1e-4)


def test_unloadable_base_raises_the_documented_error(tmp_path):
    with pytest.raises(RuntimeError, match="Model loading failed"):
        create_lora_manager({}, base=str(tmp_path / "gone"))
