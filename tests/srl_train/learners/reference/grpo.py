"""A small random model, its samples, and GRPO's gradient by the formula, one sample at a time."""

import torch
from tokenizers import Tokenizer
from tokenizers import models as tokenizer_models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from srl_train.samples import TokenSample

WORDS = 40
END, PAD = WORDS, WORDS + 1


def small_tokenizer():
    words = {f"w{i}": i for i in range(WORDS)} | {"<end>": END, "<pad>": PAD}
    tokenizer = Tokenizer(tokenizer_models.WordLevel(words, unk_token="w0"))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<end>", unk_token="w0"
    )


def small_model(seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = LlamaConfig(
            vocab_size=WORDS + 2,
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=64,
            initializer_range=0.25,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=END,
            pad_token_id=PAD,
        )
        return LlamaForCausalLM(config).eval()


def answers(mask):
    """The spans (start, stop) that the model wrote."""
    wrote = (0, *mask, 0)
    edges = [i for i in range(len(mask) + 1) if wrote[i] != wrote[i + 1]]
    return tuple(zip(edges[::2], edges[1::2], strict=True))


def sample(prompt, completion, reward, *, mask=None, logprobs=None, allowed=None, version=0):
    completion = tuple(completion)
    return TokenSample(
        prompt_ids=tuple(prompt),
        completion_ids=completion,
        mask=tuple(mask or (1,) * len(completion)),
        logprobs=tuple(logprobs or (-1.0,) * len(completion)),
        allowed=allowed,
        turns=answers(mask or (1,) * len(completion)),
        elapsed=(1,) * len(answers(mask or (1,) * len(completion))),
        rewards=(0.0,) * (len(answers(mask or (1,) * len(completion))) - 1) + (reward,),
        episode_return=reward,
        group=(0, 0, "a"),
        version=version,
    )


def some_samples(version=0):
    """Two groups of four, of different lengths, with tokens that the environment wrote."""
    return [
        sample((1, 2, 3), (10, END, 4, 5, 11, END), 1.0, mask=(1, 1, 0, 0, 1, 1), version=version),
        sample((1, 2, 3), (11, END, 4, 6, 10, END), 0.5, mask=(1, 1, 0, 0, 1, 1), version=version),
        sample((1, 2, 3), (12, 13, 14), -1.0, version=version),
        sample((1, 2, 3), (10, END), 0.25, version=version),
        sample((7, 8), (15, END, 9, 16, END), 3.0, mask=(1, 1, 0, 1, 1), version=version),
        sample((7, 8), (16, END, 9, 15, END), 1.0, mask=(1, 1, 0, 1, 1), version=version),
        sample((7, 8), (17, 18, END), 2.0, version=version),
        sample((7, 8), (15, END), 2.5, version=version),
    ]


def advantages(samples, group_size, scale):
    rewards = torch.tensor([s.episode_return for s in samples], dtype=torch.float64)
    groups = rewards.view(-1, group_size)
    found = groups - groups.mean(1, keepdim=True)
    if scale == "group":
        found = found / (groups.std(1, keepdim=True, correction=1) + 1e-4)
    elif scale == "batch":
        found = found / (rewards.std(correction=1) + 1e-4)
    return found.flatten()


def log_probs(model, one, temperature=1.0):
    """Log-probability of each completion token of one sample, renormalised over `allowed`."""
    ids = torch.tensor([one.prompt_ids + one.completion_ids])
    start = len(one.prompt_ids)
    logits = model(input_ids=ids).logits[0, start - 1 : -1] / temperature
    if one.allowed is not None:
        rows = []
        for row, legal in zip(logits, one.allowed, strict=True):
            if legal is not None:
                row = row + torch.full_like(row, -torch.inf).index_fill(0, torch.tensor(legal), 0.0)
            rows.append(row)
        logits = torch.stack(rows)
    return logits.log_softmax(-1).gather(1, ids[0, start:, None])[:, 0]


def double(model):
    """Return the same weights in float64; a deepcopy would keep the forward that TRL set."""
    with torch.random.fork_rng():
        exact = LlamaForCausalLM(model.config).double().eval()
    exact.load_state_dict(model.state_dict())
    return exact


def loss_of(model, samples, advantages_, *, old=None, clip=0.2, temperature=1.0, kind="dapo"):
    """Clipped surrogate (Shao et al. 2024, eq. 3; DAPO's mean over tokens), beta = 0.

    `old[i]`: log-probabilities the ratio is taken to; by default the model's own, ratio 1.
    """
    total, weights, per_sample = 0.0, 0, []
    for number, (one, advantage) in enumerate(zip(samples, advantages_, strict=True)):
        now = log_probs(model, one, temperature)
        before = now.detach() if old is None else torch.as_tensor(old[number], dtype=now.dtype)
        ratio = (now - before).exp()
        gain = torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
        mask = torch.tensor(one.mask, dtype=now.dtype)
        total = total - (gain * mask).sum()
        weights += sum(one.mask)
        per_sample.append(-(gain * mask).sum() / sum(one.mask))
    if kind == "grpo":
        return torch.stack(per_sample).mean()
    return total / weights


def gradients_of(model, samples, advantages_, **settings):
    loss = loss_of(model, samples, advantages_, **settings)
    names, parameters = zip(
        *((n, p) for n, p in model.named_parameters() if p.requires_grad), strict=True
    )
    found = torch.autograd.grad(loss, parameters)
    return dict(zip(names, found, strict=True)), float(loss.detach())


def relative_error(found, expected):
    """L2 norm of the difference over that of the expected, all parameters together."""
    assert found.keys() == expected.keys()
    difference = sum(((found[n].double() - e) ** 2).sum() for n, e in expected.items())
    return float((difference / sum((e**2).sum() for e in expected.values())).sqrt())
