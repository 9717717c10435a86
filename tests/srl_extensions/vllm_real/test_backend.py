"""Episodes with a real server: log-probabilities are exact, also with all slots filled."""

import pytest

from srl_agents.episode import ModelVersion
from srl_agents.event_loop import run, together
from srl_agents.llm.backends import background_loop
from srl_agents.llm.sampling import Sampling
from srl_agents.llm.text_policy import TextPolicy
from srl_agents.rollout import play_many_async
from srl_envs import coop_compete_v0
from srl_extensions.vllm.backend import VLLMBackend
from tests.srl_extensions.vllm_real.conftest import BASE
from tests.srl_extensions.vllm_real.reference import of_answer

CLOSE = 1e-4


def make_env():
    return coop_compete_v0.parallel_env(variant="pair", max_cycles=3)


@pytest.fixture(scope="module")
def loaded(fleet, adapter_folders):
    """Names of the adapters in all slots; the first is the base with an adapter of zeros."""
    names = [f"episodes@{number}" for number in range(len(adapter_folders))]
    [endpoint] = fleet.clients(BASE)

    async def load():
        for name, folder in zip(names, adapter_folders, strict=True):
            await endpoint.load_adapter(name, folder)

    async def unload():
        for name in names:
            await endpoint.unload_adapter(name)

    background_loop.run(load())
    yield names
    background_loop.run(unload())


@pytest.fixture(scope="module")
def models(model_folder, adapter_folders):
    """Frozen base and three adapted models in transformers."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    bases = [AutoModelForCausalLM.from_pretrained(model_folder).eval() for _ in range(4)]
    adapted = zip(bases[1:], adapter_folders[1:], strict=True)
    return [bases[0], *(PeftModel.from_pretrained(one, folder).eval() for one, folder in adapted)]


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("temperature", [0.7, 0.0])
def test_every_token_of_episodes_agrees_with_transformers(
    fleet, loaded, models, model_folder, constrained, temperature
):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    backend = VLLMBackend(fleet.routers[BASE], tokenizer, base=BASE, positions=1024)
    published = [ModelVersion(BASE), *(ModelVersion(BASE, 5, f"model_{n}") for n in (1, 2, 3))]
    for version, name in zip(published, loaded, strict=True):
        backend.serve(version.adapter, version, name)

    def play(*players):
        """Play episodes of two models, given by their numbers; 0 is the frozen base."""
        agents = make_env().possible_agents
        names = {a: f"model_{n}" for a, n in zip(agents, players, strict=True) if n}
        policy = TextPolicy(
            backend,
            make_env().unwrapped.text_view,
            sampling=Sampling(temperature=temperature, top_p=0.9, max_new_tokens=6),
            adapter=names,
            constrained=constrained,
        )
        return play_many_async(make_env, dict.fromkeys(agents, policy), range(3))

    episodes = [one for played in run(together(play(0, 1), play(2, 3))) for one in played]
    assert not any(episode.failure for episode in episodes)
    contexts, apart = {}, []
    for number, episode in enumerate(episodes):
        for step in (step for turn in episode.turns for step in turn):
            said = step.decision.tokens
            own = int((said.model.adapter or "model_0")[-1])
            assert said.model == published[own]
            context = contexts.get((number, step.agent), ()) + said.prompt_ids
            contexts[number, step.agent] = context + said.completion_ids
            apart += differences(models[own], context, said, temperature)
    assert max(apart) < CLOSE


def differences(model, context, said, temperature):
    """Between the server's log-probabilities and transformers'. At temperature 0 every one is 0:
    then how far each token's logit is below the highest of those allowed."""
    found = []
    for place, (token, logprob) in enumerate(zip(said.completion_ids, said.logprobs, strict=True)):
        before = [*context, *said.completion_ids[:place]]
        allowed = None if said.allowed is None else said.allowed[place]
        if temperature == 0:
            assert logprob == 0
            found.append(below_the_highest(model, before, token, allowed))
            continue
        answers = None if allowed is None else [(one,) for one in allowed]
        settings = {"temperature": temperature, "top_p": 0.9, "answers": answers}
        found.append(abs(of_answer(model, before, (token,), **settings)[0] - logprob))
    return found


def below_the_highest(model, before, token, allowed):
    import torch

    with torch.no_grad():
        logits = model(torch.tensor([before])).logits[0, -1]
    highest = logits.max() if allowed is None else logits[list(allowed)].max()
    return float(highest - logits[token])
