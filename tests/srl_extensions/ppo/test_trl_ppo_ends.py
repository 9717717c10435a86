"""Value at the end of an episode: 0 after termination, the critic's value after truncation."""

import dataclasses

import pytest
import torch

from srl_extensions.ppo.critics import CRITICS
from tests.srl_extensions.ppo.reference import Reference, played, ppo_learner
from tests.srl_train.learners.reference.grpo import relative_error
from tests.srl_train.learners.small_learner import EXACT, first_gradients

LAST = (0.7, -0.2, 0.1)


def cut_off(samples, *which, ids=(4, 6, 5)):
    return [
        dataclasses.replace(one, closing_ids=ids, closing_state=LAST) if number in which else one
        for number, one in enumerate(samples)
    ]


def observed(one, samples):
    """Return the tensors that the trainer of a learner adds to the batch, before shuffling."""
    seen, made = [], one._trainer._estimates
    one._trainer._estimates = lambda *rows: seen.append(made(*rows)) or seen[-1]
    first_gradients(one, samples)
    return seen[0]


def estimates(one, samples):
    """(advantages, returns) that a learner gives the turns of each sample."""
    batch = observed(one, samples)
    rows = zip(batch["advantages"], batch["returns"], samples, strict=True)
    return [
        ([row[start].item() for start, _ in s.turns], told[: len(s.turns)].tolist())
        for row, told, s in rows
    ]


class _Says(torch.nn.Module):
    """A critic that finds each place worth a tenth of the tokens before it."""

    reads_policy = False

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(0.1))

    def forward(self, batch, hidden):
        return self.scale * batch["value_positions"].float()


def test_termination_and_truncation_in_one_batch_by_hand(monkeypatch):
    monkeypatch.setitem(CRITICS, "separate", lambda model, joint: _Says())
    one = ppo_learner(critic="separate", discount=0.5, gae_lambda=0.5, minibatches=1,
                      normalize_advantages="none")  # fmt: skip
    # Two turns, at completion tokens 0 and 4, six tokens in all: values 0 and 0.4. Rewards 0, 1.
    two = played()[0]
    ended = dataclasses.replace(two, rewards=(0.0, 1.0))
    [cut] = cut_off([ended], 0, ids=(4, 6, 5, 7))  # the end is worth (6 + 4) / 10
    samples = [ended, cut, ended, cut, ended, ended, cut, cut]
    found = estimates(one, samples)
    for sample, (advantages, returns) in zip(samples, found, strict=True):
        if sample is ended:
            # t=1: 1 + 0.5 * 0 - 0.4 = 0.6       t=0: 0 + 0.5 * 0.4 - 0 + 0.25 * 0.6 = 0.35
            assert advantages == pytest.approx([0.35, 0.6])
            assert returns == pytest.approx([0.35, 1.0])
        else:
            # t=1: 1 + 0.5 * 1 - 0.4 = 1.1       t=0: 0 + 0.5 * 0.4 - 0 + 0.25 * 1.1 = 0.475
            assert advantages == pytest.approx([0.475, 1.1])
            assert returns == pytest.approx([0.475, 1.5])


class CutOff(Reference):
    """The formula, with the critic's value where a game was cut off."""

    def value_after(self, one):
        if one.closing_ids is None:
            return 0.0
        told = len(one.completion_ids)
        longer = dataclasses.replace(
            one,
            completion_ids=(*one.completion_ids, *one.closing_ids, 0),
            turns=(*one.turns, (told + len(one.closing_ids), told + len(one.closing_ids) + 1)),
            states=(*one.states, one.closing_state),
        )
        return self.values(longer)[-1].item()

    def returns_and_advantages(self, one, values):
        after = self.value_after(one)
        self_paid = dataclasses.replace(
            one, rewards=(*one.rewards[:-1], one.rewards[-1] + self.discount * after)
        )
        return super().returns_and_advantages(self_paid, values)


@pytest.mark.parametrize("critic", CRITICS)
def test_gradients_are_those_of_the_formula(critic):
    samples = cut_off(played(), 0, 3, 6, 7)
    one = ppo_learner(critic=critic, gae_lambda=0.8)
    expected, _ = CutOff(one).remember(samples).gradients(samples)
    found = first_gradients(one, samples)
    assert relative_error(found, expected) < EXACT
    ended = first_gradients(ppo_learner(critic=critic, gae_lambda=0.8), played())
    assert relative_error(found, ended) > 0.01
