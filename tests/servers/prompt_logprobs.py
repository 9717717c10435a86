"""Log-probabilities of a whole prompt, from a server that does nothing else meanwhile.

Beside requests for adapters vLLM 0.31 ends with its engine on CPUs, which is why only tests ask so.
"""


async def prompt_logprobs(endpoint, model, ids):
    """Log-probability of each of ids[1:] given those before it, at temperature 1; fails as the
    endpoint's own requests do."""
    body = {"model": model, "prompt": list(ids), "max_tokens": 1, "prompt_logprobs": 0}
    came = await endpoint._run(lambda: endpoint._ask("post", "/v1/completions", body))
    said = came["choices"][0]["prompt_logprobs"]
    return [said[place][str(token)]["logprob"] for place, token in enumerate(ids) if place]
