"""Log-probabilities of a whole prompt, from a server without other requests.

On CPUs, next to requests for adapters, prompt_logprobs ends the engine of vLLM 0.31.
"""


async def prompt_logprobs(endpoint, model, ids):
    """Return the log-probability of each of ids[1:] given the ids before it, at temperature 1."""
    body = {"model": model, "prompt": list(ids), "max_tokens": 1, "prompt_logprobs": 0}
    reply = await endpoint._run("post", "/v1/completions", body)
    found = reply["choices"][0]["prompt_logprobs"]
    return [found[place][str(token)]["logprob"] for place, token in enumerate(ids) if place]
