"""Log-probabilities of a real server agree with those of transformers."""

import pytest

from srl_agents.llm.backends import background_loop
from srl_agents.llm.sampling import Sampling
from tests.srl_extensions.vllm_real.conftest import BASE
from tests.srl_extensions.vllm_real.reference import of_answer

CLOSE = 1e-4
PROMPTS = [[(7 * place + start) % 500 + 3 for place in range(20 + start)] for start in range(12)]
END = 2
ANSWERS = ((100, 101, END), (100, 102, END), (103, END), (104, 105, 106, END))


@pytest.fixture(scope="module")
def models(model_folder, adapter_folders):
    """Served name -> the same model in transformers."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    def base():
        return AutoModelForCausalLM.from_pretrained(model_folder).eval()

    adapted = {
        f"agreement@{number}": PeftModel.from_pretrained(base(), folder).eval()
        for number, folder in enumerate(adapter_folders)
    }
    return {BASE: base()} | adapted


def sample(endpoint, name, **settings):
    sampling = Sampling(
        temperature=settings.get("temperature", 1.0), top_p=settings.get("top_p", 1.0)
    )
    return endpoint.complete(
        name, PROMPTS, sampling=sampling, max_tokens=8, stop_ids=[END],
        answers=settings.get("answers"),
    )  # fmt: skip


def worst(model, sampled, **settings):
    return max(
        abs(ours - theirs)
        for prompt, one in zip(PROMPTS, sampled, strict=True)
        for ours, theirs in zip(
            of_answer(model, prompt, one.ids, **settings), one.logprobs, strict=True
        )
    )


@pytest.mark.parametrize(
    "settings",
    [{}, {"temperature": 0.7}, {"top_p": 0.9}, {"temperature": 0.7, "top_p": 0.9},
     {"answers": ANSWERS}, {"answers": ANSWERS, "temperature": 0.7, "top_p": 0.9}],
    ids=str,
)  # fmt: skip
def test_the_base_agrees_with_transformers(endpoint, models, settings):
    sampled = background_loop.run(sample(endpoint, BASE, **settings))
    assert worst(models[BASE], sampled, **settings) < CLOSE
    if "answers" in settings:
        assert {one.ids for one in sampled} <= set(ANSWERS) and all(one.ended for one in sampled)


def test_concurrent_adapters_in_all_slots_agree_with_transformers(
    endpoint, models, adapter_folders
):
    import asyncio

    names = [f"agreement@{number}" for number in range(len(adapter_folders))]
    settings = {"temperature": 0.7, "top_p": 0.9}

    async def sample_concurrently():
        for name, folder in zip(names, adapter_folders, strict=True):
            await endpoint.load_adapter(name, folder)
        return [
            await asyncio.gather(
                *(sample(endpoint, name, **settings) for name in names),
                *(sample(endpoint, name, answers=ANSWERS, **settings) for name in names),
            )
            for _ in range(4)
        ]

    rounds = background_loop.run(sample_concurrently())
    apart = []
    for sampled in rounds:
        free, bound = sampled[: len(names)], sampled[len(names) :]
        for name, one, other in zip(names, free, bound, strict=True):
            apart.append(worst(models[name], one, **settings))
            apart.append(worst(models[name], other, answers=ANSWERS, **settings))
            # The adapter of zeros, with which a frozen base is served, is equal to the base.
            if name == names[0]:
                apart.append(worst(models[BASE], one, **settings))
    assert max(apart) < CLOSE

    async def unload():
        for name in names:
            await endpoint.unload_adapter(name)

    background_loop.run(unload())


def test_malformed_answers_are_refused_and_the_engine_lives(endpoint):
    import http.client
    import json
    from urllib.parse import urlsplit

    for wrong in ("x", "[]", "[[]]", "[[1.5]]", "[[-1]]", "[[true]]", "[" * 100_000, 5, ["a"]):
        connection = http.client.HTTPConnection(urlsplit(endpoint.url).netloc, timeout=60)
        body = {"model": BASE, "prompt": [1], "max_tokens": 1, "vllm_xargs": {"answers": wrong}}
        connection.request(
            "POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"}
        )
        reply = connection.getresponse()
        message = reply.read().decode()
        connection.close()
        assert reply.status == 400 and "answers" in message, (wrong, reply.status, message[:200])
    background_loop.run(endpoint.check_ready(BASE))
