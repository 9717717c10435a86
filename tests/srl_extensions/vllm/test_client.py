"""Client of one server: completions, adapters, weights and failures."""

import shutil

import pytest
import torch

from srl_agents.errors import BackendError, ServerUnavailable
from srl_agents.llm.backends import background_loop
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.sampling import Sampling
from srl_extensions.vllm.client import VLLMClient
from tests.servers.faulty_http import serving
from tests.servers.prompt_logprobs import prompt_logprobs

# peft 0.21 still reads the name that transformers 5.23 is retiring.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")
IDS = [5, 9, 12, 7, 20, 11]


@pytest.fixture
def here(tiny_folder):
    return HuggingFaceBackend.load(tiny_folder, device="cpu")


@pytest.fixture(scope="module")
def stop_ids(tiny_folder):
    return HuggingFaceBackend.load(tiny_folder, device="cpu").chat.stop_ids


@pytest.fixture
def endpoint(stub):
    made = VLLMClient(stub.url)
    yield made
    background_loop.run(made.close())


@pytest.fixture
def adapter(here, tmp_path):
    """Folder of an adapter, and the model with this adapter."""
    from peft import LoraConfig, get_peft_model

    lora = LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)
    model = get_peft_model(here.model, lora)
    model.save_pretrained(tmp_path / "adapter")
    return tmp_path / "adapter", model.eval()


def complete(endpoint, model="base", prompts=(IDS,), **settings):
    given = {"sampling": Sampling(temperature=0.0), "max_tokens": 3, "stop_ids": STOPS[0]}
    return background_loop.run(endpoint.complete(model, prompts, **(given | settings)))


STOPS = []


@pytest.fixture(autouse=True)
def stops(stop_ids):
    STOPS[:] = [stop_ids]


def logprobs_here(model):
    with torch.inference_mode():
        logits = model(torch.tensor([IDS])).logits[0, :-1].log_softmax(-1)
    return [float(row[token]) for row, token in zip(logits, IDS[1:], strict=True)]


def test_adapter_is_served_between_load_and_unload(endpoint, adapter):
    folder, model = adapter
    background_loop.run(endpoint.load_adapter("red@1.0", folder))
    assert background_loop.run(endpoint.models()) == ["base", "red@1.0"]
    expected = logprobs_here(model)
    found = background_loop.run(prompt_logprobs(endpoint, "red@1.0", IDS))
    assert found == pytest.approx(expected, abs=1e-5)
    with model.disable_adapter():
        base = logprobs_here(model)
    assert background_loop.run(prompt_logprobs(endpoint, "base", IDS)) == pytest.approx(
        base, abs=1e-5
    )
    assert max(abs(a - b) for a, b in zip(base, expected, strict=True)) > 0.1
    background_loop.run(endpoint.unload_adapter("red@1.0"))
    with pytest.raises(ServerUnavailable, match=r"does not know 'red@1.0'"):
        complete(endpoint, "red@1.0")


def test_impossible_changes_are_reported_without_retries(stub, endpoint, adapter, tmp_path):
    folder, _ = adapter
    background_loop.run(endpoint.load_adapter("red@1", folder))
    for change, message in (
        (endpoint.load_adapter("red@1", folder), "already been loaded"),
        (endpoint.load_adapter("red@2", tmp_path / "nowhere"), "No adapter found"),
        (endpoint.unload_adapter("blue@1"), "cannot be found"),
    ):
        with pytest.raises(BackendError, match=message):
            background_loop.run(change)
    assert stub.counts["/v1/load_lora_adapter"] == 3
    assert complete(endpoint)


def test_whole_weights_are_replaced(endpoint, here, tmp_path):
    before = background_loop.run(prompt_logprobs(endpoint, "base", IDS))
    with torch.no_grad():
        for parameter in here.model.parameters():
            parameter.mul_(1.1)
    here.model.save_pretrained(tmp_path)
    background_loop.run(endpoint.update_weights(tmp_path))
    after = background_loop.run(prompt_logprobs(endpoint, "base", IDS))
    assert after == pytest.approx(logprobs_here(here.model), abs=1e-5) != before


def test_failed_weight_update_pauses_the_server_until_the_next_update(
    stub, endpoint, here, tmp_path
):
    with pytest.raises(BackendError, match=r"no .*safetensors"):
        background_loop.run(endpoint.update_weights(tmp_path / "nowhere"))
    assert stub.counts["/collective_rpc"] == 1, "no retries"
    waiting = background_loop.submit(
        endpoint.complete(
            "base", [IDS], sampling=Sampling(), max_tokens=3, stop_ids=here.chat.stop_ids
        )
    )
    with pytest.raises(TimeoutError):
        waiting.result(0.5)
    here.model.save_pretrained(tmp_path)
    background_loop.run(endpoint.update_weights(tmp_path))
    assert waiting.result(30)


def test_check_ready_samples_one_token_in_one_attempt(stub, endpoint):
    background_loop.run(endpoint.check_ready("base"))
    assert stub.counts["prompts"] == 1
    with pytest.raises(BackendError, match="`other` does not exist"):
        background_loop.run(endpoint.check_ready("other"))
    stub.faults.script.append("503")
    with pytest.raises(BackendError, match="503"):
        background_loop.run(endpoint.check_ready("base"))
    stub.healthy = False
    with pytest.raises(ServerUnavailable, match="its engine is dead"):
        background_loop.run(endpoint.check_ready("base"))
    stub.stop()
    with pytest.raises(ServerUnavailable, match="Connection error"):
        background_loop.run(endpoint.check_ready("base"))


def test_missing_server_is_unavailable_and_used_again_after_its_return(stub, endpoint):
    stub.healthy = False
    with pytest.raises(ServerUnavailable, match="its engine is dead"):
        complete(endpoint)
    stub.stop()
    with pytest.raises(ServerUnavailable):
        complete(endpoint)
    stub.start()
    assert len(complete(endpoint)) == 1
    stub.close_connections()  # vLLM closes idle connections.
    assert len(complete(endpoint)) == 1


def test_answer_of_another_model_is_refused(stub, endpoint, tmp_path, adapter):
    stub.faults.script.append("model")
    with pytest.raises(BackendError, match="'another' answered instead of 'base'"):
        complete(endpoint)
    # The folder must outlive the name: an engine that reads a missing folder ends.
    folder, _ = adapter
    background_loop.run(endpoint.load_adapter("red@1", folder))
    shutil.rmtree(folder)
    with pytest.raises(ServerUnavailable, match="its engine is dead"):
        complete(endpoint, "red@1")


def test_api_url_is_accepted(stub):
    made = VLLMClient(f"{stub.url}/v1/")
    assert made.name == made.url == stub.url
    assert background_loop.run(made.models()) == ["base"]
    background_loop.run(made.close())


class Replies:
    """Server that sends the same text in every reply."""

    keeps_connections, text_type = True, "application/json"

    def __init__(self, status, text):
        self.status, self.text = status, text

    def struck_by_faults(self, path):
        return False

    def reply(self, path, body, headers):
        return self.status, self.text


def completed(status, text):
    """Return the completions that the client reads from this reply."""
    with serving(Replies(status, text)) as http:
        endpoint = VLLMClient(f"http://127.0.0.1:{http.server_port}")
        try:
            return complete(endpoint, max_tokens=2)
        finally:
            background_loop.run(endpoint.close())


def a_choice(ids="[5]", logprobs="[-1.0]"):
    return (
        f'{{"model": "base", "choices": [{{"index": 0, "token_ids": {ids}, '
        f'"logprobs": {{"token_logprobs": {logprobs}}}, "finish_reason": "stop"}}]}}'
    )


@pytest.mark.parametrize(
    "choice",
    [
        *(
            a_choice(ids=f"[{one}]")
            for one in ("-3", "9876543210", "1.7", '"12"', "true", "null", "Infinity")
        ),
        a_choice(ids='"7"'),
        *(a_choice(logprobs=f"[{one}]") for one in ("NaN", "Infinity", "-1e999", "3.0", '"nan"')),
        a_choice(logprobs="[-1" + 400 * "0" + "]"),
        a_choice("[1, 2, 3]", "[-1, -1, -1]"),
        200_000 * "[",
        a_choice(ids=f"[{5000 * '1'}]"),
    ],
)
def test_invalid_tokens_and_log_probabilities_are_refused(choice):
    assert completed(200, a_choice())[0].ids == (5,)
    with pytest.raises(BackendError):
        completed(200, choice)


def test_error_quotes_the_server_shortened_and_escaped():
    with pytest.raises(BackendError) as caught:
        completed(400, '{"error": {"message": "\\u001b[2J' + 100_000 * "x" + '"}}')
    assert "\\x1b[2J" in str(caught.value) and len(str(caught.value)) < 2000
