"""Updates of shared weights: what moves, what stays, and who answers with which version."""

import pytest
import torch

from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_train.errors import UpdateError
from tests.core_srl.weights import gradients_of, logprobs_of, parameters

pytestmark = pytest.mark.usefixtures("one_thread")


def test_adaptive_update_is_adamw_with_persistent_moments(opened):
    manager = opened()
    ours, theirs = parameters(manager), {}
    for name, own in ours.items():
        theirs[name] = torch.nn.Parameter(own.detach().clone())
    optimizer = torch.optim.AdamW(theirs.values(), weight_decay=0.0)
    for step, rate in enumerate((1e-2, 3e-3, 1e-3)):
        gradients = gradients_of(manager, step)
        done = manager.update_shared_parameters(gradients, learning_rate=rate)
        optimizer.param_groups[0]["lr"] = rate
        for name, own in theirs.items():
            own.grad = gradients[name]
        optimizer.step()
        assert (done["version"], done["parameters"]) == (step + 1, len(ours))
        norm = torch.stack([own.norm() for own in gradients.values()]).norm()
        assert done["gradient_norm"] == pytest.approx(float(norm), rel=1e-5)
    for name, own in ours.items():
        torch.testing.assert_close(own, theirs[name])


def test_update_reaches_every_node_and_clears_caches(opened, tiny_folder):
    manager = opened(temperature=1.5)
    contexts = {}
    for name in "ab":
        manager.register_node(name, {"max_new_tokens": 6})
        tokens = manager.generate_for_node(name, "Round 1.").tokens
        contexts[name] = tokens.prompt_ids + tokens.completion_ids
    done = manager.update_shared_parameters(gradients_of(manager), learning_rate=0.02)
    assert done["affected_nodes"] == ["a", "b"]
    fresh = HuggingFaceBackend.load(tiny_folder, device="cpu").model
    fresh.load_state_dict(manager.backend.model.state_dict())
    for name in "ab":
        response = manager.generate_for_node(name, "Round 2.")
        tokens = response.tokens
        expected = logprobs_of(fresh, contexts[name] + tokens.prompt_ids, tokens.completion_ids)
        got = torch.tensor(tokens.logprobs, dtype=expected.dtype)
        torch.testing.assert_close(got, expected, atol=1e-4, rtol=0)
        assert response.model.endswith("@1")
    stats = manager.get_global_stats()
    assert (stats["weights_version"], stats["total_updates"]) == (1, 1)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda name, own: {}, "gradients"),
        (lambda name, own: {name: own, "lm_heads": own}, "lm_heads"),
        (lambda name, own: {name: own[:1]}, "shape"),
        (lambda name, own: {name: own * torch.nan}, "finite"),
        (lambda name, own: {name: None}, "numbers"),
    ],
)
def test_invalid_gradients_change_nothing(wrong, told, opened):
    manager = opened()
    gradients = gradients_of(manager)
    [first, second, *_] = gradients
    before = {name: own.detach().clone() for name, own in parameters(manager).items()}
    given = wrong(second, gradients[second])
    if isinstance(given, dict) and given:
        given = {first: gradients[first]} | given  # what comes before may fit
    with pytest.raises(UpdateError, match=told):
        manager.update_shared_parameters(given, learning_rate=0.1)
    for rate in (0, float("nan")):
        with pytest.raises(UpdateError, match="learning_rate"):
            manager.update_shared_parameters(gradients, learning_rate=rate)
    assert all(torch.equal(own, before[name]) for name, own in parameters(manager).items())
    assert manager.get_global_stats()["weights_version"] == 0


def test_with_lora_only_the_adapter_is_updated(opened, tiny_folder):
    manager = opened(enable_lora=True, temperature=1.5)
    manager.register_node("a", {"max_new_tokens": 6})
    manager.generate_for_node("a", "Round 1.")
    gradients = gradients_of(manager)
    assert gradients and all("lora_" in name for name in gradients)
    before = {name: own.detach().clone() for name, own in parameters(manager).items()}
    manager.update_shared_parameters(gradients, learning_rate=0.1)
    manager.update_shared_parameters(gradients, learning_rate=0.1)
    for name, own in parameters(manager).items():
        assert torch.equal(own, before[name]) is ("lora_" not in name)
    tokens = manager.generate_for_node("a", "Round 2.").tokens
    assert tokens.model.version == 2
    [base] = [name for name in before if name.endswith("embed_tokens.weight")]
    with pytest.raises(UpdateError, match="names of weights"):
        manager.update_shared_parameters({base: before[base]}, learning_rate=0.1)
