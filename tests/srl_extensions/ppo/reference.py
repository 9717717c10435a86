"""PPO learners of the small model, and their losses by the formulas, one sample at a time."""

import copy
import dataclasses
import itertools

import torch

from srl_extensions.ppo.config import PpoConfig
from srl_extensions.ppo.trl_ppo import PpoLearner
from srl_train.config.models import AdapterConfig
from srl_train.learners.lora import adapter_models
from srl_train.samples import JointState
from tests.srl_train.learners.reference.grpo import (
    END,
    log_probs,
    sample,
    small_model,
    small_tokenizer,
)

AGENTS = ("a", "b")
STATE = 3


def ppo_learner(model=None, *, discount=0.9, planned_updates=10, group_size=4, seed=0, **ppo):
    one = PpoLearner(
        "model_0",
        small_model() if model is None else model,
        small_tokenizer(),
        PpoConfig(
            **{
                "critic": "shared",
                "minibatches": 1,
                "num_iterations": 1,
                "value_coefficient": 0.5,
                "gae_lambda": 0.95,
                **ppo,
            }
        ),
        group_size=group_size,
        temperature=1.0,
        planned_updates=planned_updates,
        discount=discount,
        joint=JointState(AGENTS, STATE),
        seed=seed,
    )
    spoken_up(one)
    return one


def spoken_up(one, seed=5):
    """The critic's last layer starts at 0: give it something to say."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in one.weights().items():
            if name.startswith("critic.") and not parameter.any():
                parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))


def played(version=0):
    """Two groups of four with one to three turns, each paid, of different lengths."""
    told = (1, 1, 0, 0, 1, 1)
    thrice = (1, 1, 0, 1, 1, 0, 1, 1)
    samples = [
        sample((1, 2, 3), (10, END, 4, 5, 11, END), 1.0, mask=told),
        sample((1, 2, 3), (11, END, 4, 6, 10, END), 0.5, mask=told),
        sample((1, 2, 3), (12, 13, 14), -1.0),
        sample((1, 2, 3), (10, END, 5, 12, END, 6, 13, END), 0.25, mask=thrice),
        sample((7, 8), (15, END, 9, 16, END), 3.0, mask=(1, 1, 0, 1, 1)),
        sample((7, 8), (16, END, 9, 15, END), 1.0, mask=(1, 1, 0, 1, 1)),
        sample((7, 8), (17, 18, END), 2.0),
        sample((7, 8), (15, END), 2.5),
    ]
    return [
        dataclasses.replace(
            one,
            rewards=tuple(0.4 * t - 0.3 * number for t in range(len(one.turns) - 1))
            + one.rewards[-1:],
            group=(0, number // 4, AGENTS[number // 4]),
            states=tuple((0.1 * number, float(t), -0.5) for t in range(len(one.turns))),
            version=version,
        )
        for number, one in enumerate(samples)
    ]


def adapter_model():
    model = adapter_models(small_model(), ["model_0"], AdapterConfig(rank=2), 0)["model_0"]
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:  # zero at the start, which would hide half of the gradients
                parameter.copy_(0.05 * torch.randn(parameter.shape, generator=generator))
    return model


class Reference:
    """Copy of the policy and the critic of a learner in float64."""

    def __init__(self, one, discount=0.9):
        self.config, self.discount = one._config, discount
        model = copy.deepcopy(one._trainer.model)
        whole = model.get_base_model() if hasattr(model, "peft_config") else model
        whole.__dict__.pop("forward", None)  # what TRL put on the model
        self.model = model.double().eval()
        self.critic = copy.deepcopy(one._trainer.critic).double().eval()
        self.scale = one._trainer.scale and one._trainer.scale.state()
        self.old = None

    def parameters(self):
        own = {n: p for n, p in self.model.named_parameters() if p.requires_grad}
        critic = {f"critic.{n}": p for n, p in self.critic.named_parameters() if p.requires_grad}
        return own | critic

    def values(self, one):
        if self.config.critic == "central":
            seat = [float(name == one.group[2]) for name in AGENTS]
            states = torch.tensor([[*s, *seat] for s in one.states], dtype=torch.float64)
            layers = [m for m in self.critic.layers if isinstance(m, torch.nn.Linear)]
            for layer in layers[:-1]:
                states = torch.tanh(states @ layer.weight.T + layer.bias)
            return (states @ layers[-1].weight.T + layers[-1].bias)[:, 0]
        ids = torch.tensor([one.prompt_ids + one.completion_ids])
        if self.config.critic == "shared":
            hidden = self.model(input_ids=ids, output_hidden_states=True).hidden_states[-1]
        else:
            hidden = self.critic.backbone(input_ids=ids).last_hidden_state
        before = [len(one.prompt_ids) + start - 1 for start, _ in one.turns]
        return hidden[0, before] @ self.critic.head.weight[0] + self.critic.head.bias

    def returns_and_advantages(self, one, values):
        """Return advantages by the definition: sums of later, discounted temporal differences."""
        rewards, gammas = list(one.rewards), [self.discount] * len(one.rewards)
        now, after = values.tolist(), [*values[1:].tolist(), 0.0]
        steps = zip(rewards, gammas, after, now, strict=True)
        surprises = [r + g * later - v for r, g, later, v in steps]
        weights = [g * self.config.gae_lambda for g in gammas]
        advantages = []
        for t in range(len(rewards)):
            reach = itertools.accumulate([1.0, *weights[t:-1]], lambda a, b: a * b)
            advantages.append(sum(w * s for w, s in zip(reach, surprises[t:], strict=True)))
        advantages = torch.tensor(advantages, dtype=torch.float64)
        return advantages + values, advantages

    def in_returns(self, values):
        """Values in units of return, by the updates so far."""
        if self.scale is None:
            return values
        _, mean, variance = self.scale
        return mean + values * variance**0.5

    def in_deviations(self, returns):
        """Return the critic's targets, from the moments of all updates including this one."""
        if self.scale is None:
            return returns
        weight, mean, variance = self.scale
        weight, flat = 0.99 * weight, torch.cat(returns)
        both = (weight * mean + flat.mean()) / (weight + 1)
        second = (weight * (variance + mean**2) + (flat**2).mean()) / (weight + 1)
        return [(own - both) / (second - both**2).sqrt() for own in returns]

    def normalised(self, samples, advantages):
        flat = torch.cat(advantages)
        shifted = flat - flat.mean()
        if self.config.normalize_advantages == "group":
            turns = [(one.group, t) for one in samples for t in range(len(one.turns))]
            for number, turn in enumerate(turns):
                alike = [a for a, other in zip(flat, turns, strict=True) if other == turn]
                if len(alike) > 1:
                    shifted[number] = flat[number] - sum(alike) / len(alike)
        scaled = shifted / (shifted.std(correction=0) + 1e-8)
        return list(scaled.split([len(a) for a in advantages]))

    def remember(self, samples):
        """Record the current log-probabilities, to which later losses refer."""
        with torch.no_grad():
            values = [self.values(one) for one in samples]
            found = map(self.returns_and_advantages, samples, map(self.in_returns, values))
            returns, advantages = map(list, zip(*found, strict=True))
            returns = self.in_deviations(returns)
            if self.config.normalize_advantages != "none":
                advantages = self.normalised(samples, advantages)
            logps = [log_probs(self.model, one) for one in samples]
        self.old = values, returns, advantages, logps
        return self

    def loss(self, samples):
        """(policy, value): each a mean over the update's answer tokens, or actions."""
        gains, errors, tokens, entropies = [], [], 0, []
        for one, value, target, advantage, old in zip(samples, *self.old, strict=True):
            now = log_probs(self.model, one)
            ratio = (now - old).exp()
            for (start, stop), a in zip(one.turns, advantage, strict=True):
                part = ratio[start:stop]
                clip = part.clamp(1 - self.config.clip_range, 1 + self.config.clip_range)
                gains.append(torch.minimum(part * a, clip * a).sum())
            tokens += sum(one.mask)
            found = self.values(one)
            error = (found - target) ** 2
            limit = self.config.value_clip
            if limit is not None:
                near = value + (found - value).clamp(-limit, limit)
                error = torch.maximum(error, (near - target) ** 2)
            errors.append(error)
            entropies.append(self.entropies(one))
        entropy = torch.cat(entropies).mean()
        policy = -torch.stack(gains).sum() / tokens - self.config.entropy_coef * entropy
        return policy, 0.5 * torch.cat(errors).mean()

    def entropies(self, one):
        ids = torch.tensor([one.prompt_ids + one.completion_ids])
        logps = self.model(input_ids=ids).logits[0, len(one.prompt_ids) - 1 : -1].log_softmax(-1)
        return -(logps.exp() * logps).sum(-1)[torch.tensor(one.mask).bool()]

    def gradients(self, samples):
        policy, value = self.loss(samples)
        loss = policy + self.config.value_coefficient * value
        parameters = self.parameters()
        found = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
        named = zip(parameters.items(), found, strict=True)
        return {n: torch.zeros_like(p) if g is None else g for (n, p), g in named}, loss.item()
