import math

import numpy as np
import pytest
import torch

from srl_agents.errors import BackendError
from srl_agents.llm.backends.huggingface.sampling import TokenDraw
from srl_agents.llm.sampling import Sampling

LOGITS = torch.tensor([2.0, 1.0, 0.5, 0.0, -1.0, -30.0])
CPU = torch.device("cpu")


def expected(sampling: Sampling, allowed: tuple[int, ...] | None = None) -> np.ndarray:
    """Return the distribution by a simple reference implementation."""
    scores = LOGITS.double().numpy() / (sampling.temperature or 1.0)
    mass = np.exp(scores)
    if allowed is not None:
        mass[[t for t in range(len(mass)) if t not in allowed]] = 0.0
    order = np.argsort(-mass, kind="stable")
    count = 1 if sampling.temperature == 0 else sampling.top_k or len(mass)
    mass[order[count:]] = 0.0
    mass /= mass.sum()
    if sampling.top_p < 1:
        before = np.cumsum(mass[order]) - mass[order]
        mass[order[before >= sampling.top_p]] = 0.0
    return mass / mass.sum()


SETTINGS = [
    Sampling(),
    Sampling(temperature=0.5),
    Sampling(temperature=2.0, top_k=3),
    Sampling(top_k=10**30),
    Sampling(top_p=0.8),
    Sampling(temperature=1.5, top_p=0.7, top_k=4),
    Sampling(top_p=0.01),
    Sampling(temperature=0.0),
]


@pytest.mark.parametrize("allowed", [None, (1, 3), (3,)])
@pytest.mark.parametrize("sampling", SETTINGS)
def test_draws_follow_the_distribution_and_return_its_logprobs(sampling, allowed):
    wanted = expected(sampling, allowed)
    uniforms = ((np.arange(2000) + 0.5) / 2000).tolist()
    rows = len(uniforms)
    draw = TokenDraw([sampling] * rows, CPU)
    tokens, logprobs = draw(LOGITS.repeat(rows, 1), uniforms, [allowed] * rows, range(rows))
    shares = np.bincount(tokens, minlength=len(LOGITS)) / rows
    np.testing.assert_allclose(shares, wanted, atol=1 / 1000)
    np.testing.assert_allclose(logprobs, np.log(wanted[tokens]), atol=1e-5)


@pytest.mark.parametrize("uniform", [0.0, math.nextafter(1.0, 0.0)])
def test_the_ends_of_the_unit_interval_draw_only_possible_tokens(uniform):
    logits = torch.tensor([[-math.inf, 0.0, 0.0, -math.inf]])
    for sampling in (Sampling(), Sampling(top_k=2), Sampling(top_p=0.99)):
        [token], [logprob] = TokenDraw([sampling], CPU)(logits, [uniform], [None], [0])
        assert token == (1 if uniform == 0 else 2)
        assert logprob == pytest.approx(math.log(0.5))


@pytest.mark.parametrize("wide", [torch.float64, torch.float32])  # single: as on Apple's GPUs
def test_rounding_does_not_draw_impossible_tokens(wide):
    rows = 1000
    logits = torch.randn(rows, 7, generator=torch.Generator().manual_seed(0))
    logits[:, -1] = -math.inf
    draw = TokenDraw([Sampling()] * rows, CPU)
    draw._wide = wide
    tokens, _ = draw(logits, [math.nextafter(1.0, 0.0)] * rows, [None] * rows, range(rows))
    assert max(tokens) == 5


def test_settings_per_row_and_subsets_of_rows():
    draw = TokenDraw([Sampling(), *SETTINGS], CPU)
    logits = torch.cat([torch.full((1, 6), 9.0), LOGITS.repeat(len(SETTINGS), 1)])
    allowed = [None, (0, 4), *[None] * (len(SETTINGS) - 2)]
    rows = list(range(1, len(logits)))
    tokens, logprobs = draw(logits, [0.6] * len(SETTINGS), allowed, rows)
    for sampling, token, logprob, legal in zip(SETTINGS, tokens, logprobs, allowed, strict=True):
        wanted = expected(sampling, legal)
        assert token == np.searchsorted(np.cumsum(wanted), 0.6, side="right")
        assert logprob == pytest.approx(math.log(wanted[token]), abs=1e-5)


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
@pytest.mark.parametrize("sampling", SETTINGS)
def test_logits_that_are_not_finite_are_rejected(sampling, wrong):
    logits = LOGITS.repeat(2, 1)
    logits[1, 3] = wrong
    with pytest.raises(BackendError, match=r"output is not finite.*learning rate too high"):
        TokenDraw([sampling] * 2, CPU)(logits, [0.5, 0.5], [None, None], [0, 1])
