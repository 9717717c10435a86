"""Log-probabilities by transformers: of sampled answers, and of whole texts."""

import torch


def of_text(model, ids):
    """Return the log-probability of each of ids[1:] given the ids before it."""
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0, :-1].float()
    return logits.log_softmax(-1)[torch.arange(len(ids) - 1), ids[1:]].tolist()


def of_answer(model, prompt, answer, *, temperature=1.0, top_p=1.0, answers=None):
    """Return the log-probability of each token of an answer, in its sampling distribution.

    Legal answers are applied first, then temperature, then top_p.
    """
    with torch.no_grad():
        logits = model(torch.tensor([[*prompt, *answer]])).logits[0].float()
    found = []
    for place, token in enumerate(answer):
        row = logits[len(prompt) - 1 + place]
        if answers is not None:
            allowed = [a[place] for a in answers if len(a) > place and a[:place] == answer[:place]]
            masked = torch.full_like(row, float("-inf"))
            masked[allowed] = row[allowed]
            row = masked
        shares, order = (row / temperature).softmax(-1).sort(descending=True)
        kept = shares.cumsum(-1) - shares < top_p
        nucleus = torch.zeros_like(row).scatter(0, order[kept], shares[kept])
        found.append(float((nucleus[token] / nucleus.sum()).log()))
    return found
