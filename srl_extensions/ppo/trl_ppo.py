"""PPO learner: TRL's clipped surrogate with advantages from a critic.

The formulas are in docs/training/ppo.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from srl_extensions.ppo.config import PpoConfig
from srl_extensions.ppo.critics import (
    CRITICS,
    Critic,
    TokenCritic,
    backbone_of,
    joint_states,
    last_hidden,
    values_after,
    with_closings,
)
from srl_extensions.ppo.values import (
    Floats,
    ValueScale,
    explained_variance,
    generalized_advantages,
    standardized,
)
from srl_train import processes
from srl_train.errors import ConfigError
from srl_train.learners.learner import LEARNER_ONLY
from srl_train.learners.trl_grpo import PlayedGRPOTrainer, PlayedLearner, on_tokens
from srl_train.learners.trl_stepped import isolated_randomness
from srl_train.samples import JointState, TokenSample


class PlayedPPOTrainer(PlayedGRPOTrainer):
    """GRPOTrainer with a critic: advantages (B, T) by GAE, and a value loss in addition to TRL's.

    `args` and `kwargs` are arguments of GRPOTrainer. `discount` is per environment step.
    `agents` are all agents, for the central critic.
    """

    def __init__(
        self,
        *args: Any,
        critic: Critic,
        settings: PpoConfig,
        discount: float,
        agents: Sequence[str],
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.critic = critic
        self.settings = settings
        self.discount = discount
        self.agents = agents
        self.scale = ValueScale() if settings.value_normalization == "running" else None
        """Normalization of the critic's targets; None if they are returns."""

    def create_optimizer(self, model: Any = None) -> Any:
        """Create and return TRL's optimizer, with the critic as a group without weight decay."""
        super().create_optimizer(model)
        rate = self.settings.value_learning_rate
        parameters = [p for p in self.critic.parameters() if p.requires_grad]
        options = {} if rate is None else {"lr": rate}
        self.optimizer.add_param_group({"params": parameters, "weight_decay": 0.0, **options})
        return self.optimizer

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        batch = super()._generate_and_score_completions(inputs)
        # TRL shuffles and splits these tensors, which have a row per sample, with the batch.
        return {**batch, **self._estimates(batch, [row["sample"] for row in inputs])}

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        with self._watched_backbone() as seen:
            policy_loss: Tensor = super()._compute_loss(model, inputs)
        # Schulman's k3 estimate of KL(sampling policy || policy), over answer tokens.
        mask = inputs["completion_mask"] * inputs["tool_mask"]
        old = inputs.get("old_per_token_logps")
        ratio = torch.zeros_like(self.newest_logps) if old is None else self.newest_logps - old
        k3 = ((ratio.exp() - 1 - ratio) * mask).sum().item()
        self._metrics["train"]["approx_kl"].append(k3 / max(mask.sum().item(), 1))
        if self._reads_contexts(self.samples):
            values = self._values_in_contexts(self.samples, inputs["returns"].shape)
        else:
            values = self.critic(inputs, seen[0])  # one forward pass for both losses
        loss = self._value_loss(inputs, values)
        self._metrics["train"]["value_loss"].append(loss.item())
        return policy_loss + self.settings.value_coefficient * loss

    def _reads_contexts(self, samples: Sequence[TokenSample]) -> bool:
        return samples[0].contexts is not None and self.settings.critic != "central"

    def _values_in_contexts(
        self, samples: Sequence[TokenSample], shape: Sequence[int], *, closing: bool = False
    ) -> Tensor:
        """Return answers' values, else 0; `closing` sets the last column, after `closing_ids`."""
        contexts = [
            (row, column, ids)
            for row, sample in enumerate(samples)
            for column, ids in enumerate(sample.contexts or ())
        ]
        if closing:
            contexts += [
                (row, shape[1] - 1, sample.closing_ids)
                for row, sample in enumerate(samples)
                if sample.closing_ids is not None
            ]
        rows, columns, ids = zip(*contexts, strict=True)
        assert isinstance(self.critic, TokenCritic)
        values = values_after(
            self.critic.head,
            self.critic.backbone or self._backbone,
            ids,
            self.args.per_device_train_batch_size,
        )
        places = (torch.tensor(each, device=values.device) for each in (rows, columns))
        return values.new_zeros(*shape).index_put(tuple(places), values)

    @property
    def _backbone(self) -> Any:
        return backbone_of(self.accelerator.unwrap_model(self.model))

    def _value_loss(self, batch: Mapping[str, Any], values: Tensor) -> Tensor:
        errors = (values - batch["returns"]) ** 2
        limit = self.settings.value_clip
        if limit is not None:
            old = batch["old_values"]
            clipped = old + (values - old).clamp(-limit, limit)
            errors = torch.maximum(errors, (clipped - batch["returns"]) ** 2)
        loss: Tensor = 0.5 * (batch["value_weights"] * errors).sum()
        return loss

    @contextmanager
    def _watched_backbone(self) -> Iterator[list[Tensor]]:
        seen: list[Tensor] = []
        handle = self._backbone.register_forward_hook(
            lambda module, inputs, output: seen.append(output.last_hidden_state)
        )
        try:
            yield seen
        finally:
            handle.remove()

    def _estimates(
        self, batch: Mapping[str, Any], samples: Sequence[TokenSample]
    ) -> dict[str, Tensor]:
        """Return advantages and the value loss's inputs; log explained variance, update `scale`."""
        like = batch["completion_ids"]
        counts = [len(one.turns) for one in samples]
        places = _padded([torch.tensor([start for start, _ in one.turns]) for one in samples], like)
        batch = {**batch, "value_positions": places}
        if self.settings.critic == "central":
            batch["states"] = joint_states(samples, self.agents).to(like.device)
        cut = [s.closing_ids is not None for s in samples]
        # The critic evaluates the last observation of truncated episodes, but is not trained on it.
        valued = with_closings(batch, samples, self.agents) if any(cut) else batch
        raw = self._values_now(valued, samples).double().cpu().numpy()
        values = raw if self.scale is None else self.scale.restore(raw)
        values, last = values[:, : max(counts)], np.where(cut, values[:, -1], 0.0)

        advantages: list[Floats] = []
        returns: list[Floats] = []
        for row, count, one, after in zip(values, counts, samples, last, strict=True):
            discounts = [self.discount**steps for steps in one.elapsed]
            found = generalized_advantages(
                one.rewards, [*row[:count], after], discounts, self.settings.gae_lambda
            )
            advantages.append(found)
            returns.append(found + row[:count])
        old = np.concatenate([row[:count] for row, count in zip(values, counts, strict=True)])
        # The samples of all processes are normalized and weighted as one update.
        old, _ = _whole(old)
        all_returns, _ = _whole(np.concatenate(returns))
        explained = explained_variance(old, all_returns)
        if explained is not None:
            self._metrics["train"]["explained_variance"].append(explained)
        if self.scale is not None:
            self.scale.update(all_returns)
            returns = [self.scale.normalize(row) for row in returns]
        flat, share = _whole(np.concatenate(advantages))
        if self.settings.normalize_advantages == "group":
            kinds = [(one.group, turn) for one in samples for turn in range(len(one.turns))]
            flat = standardized(flat, processes.gather(kinds))
        elif self.settings.normalize_advantages == "update":
            flat = standardized(flat)
        # A mean over the actions of an optimizer step, as TRL's token mean: a step has on average
        # this share of the actions, and gradients are averaged over processes.
        weight = self.settings.minibatches * processes.count() / len(flat)
        rows = np.split(flat[share], np.cumsum(counts)[:-1])
        return {
            "advantages": on_tokens(samples, [row.tolist() for row in rows], like),
            "returns": _padded([torch.from_numpy(row).float() for row in returns], like),
            "old_values": torch.from_numpy(raw[:, : max(counts)]).float().to(like.device),
            "value_weights": _padded([torch.full((count,), weight) for count in counts], like),
            **{name: batch[name] for name in ("value_positions", "states") if name in batch},
        }

    @torch.no_grad()
    def _values_now(self, batch: Mapping[str, Any], samples: Sequence[TokenSample]) -> Tensor:
        self.model.eval()
        self.critic.eval()
        if self._reads_contexts(samples):
            shape = batch["value_positions"].shape
            found = [self._values_in_contexts(samples, shape, closing=True)]
        else:
            names = ["prompt_ids", "prompt_mask", "completion_ids", "completion_mask"]
            names += ["value_positions", "states"]
            size, found = self.args.per_device_train_batch_size, []
            for start in range(0, len(samples), size):
                part = {n: batch[n][start : start + size] for n in names if n in batch}
                hidden = last_hidden(self._backbone, part) if self.critic.reads_policy else None
                found.append(self.critic(part, hidden))
        self.critic.train()
        self.model.train()  # TRL derives its own mode from this
        return torch.cat(found)


class PpoLearner(PlayedLearner):
    """One model under PPO; arguments as in PlayedLearner.

    Weights and gradients include the critic's, with names that begin with "critic.", also for
    update strategies and checkpoints. The critic's gradient is clipped separately.
    Raises ConfigError for a central critic if `joint` is None.
    """

    _config: PpoConfig

    def __init__(
        self,
        name: str,
        model: Any,
        tokenizer: Any,
        config: PpoConfig,
        *,
        discount: float = 1.0,
        joint: JointState | None = None,
        seed: int = 0,
        **settings: Any,
    ) -> None:
        if config.critic == "central" and joint is None:
            raise ConfigError(
                "algorithm.critic must be 'shared' or 'separate', got 'central': the environment "
                "has no state()"
            )
        with isolated_randomness(seed):  # strategies that average require equal initial critics
            critic = CRITICS[config.critic](model, joint)
        critic.to(next(model.parameters()).device)
        self._make_trainer = partial(
            PlayedPPOTrainer,
            critic=critic,
            settings=config,
            discount=discount,
            agents=joint.agents if joint else (),
        )
        super().__init__(name, model, tokenizer, config, seed=seed, **settings)
        self._critic = {n: p for n, p in critic.named_parameters() if p.requires_grad}
        self._parameters |= {f"{LEARNER_ONLY}{n}": p for n, p in self._critic.items()}

    def _own_arguments(self) -> dict[str, Any]:
        return {"entropy_coef": self._config.entropy_coef}

    def apply_gradients(self, gradients: Mapping[str, Tensor] | None) -> None:
        if gradients is not None:
            critic = {n: g for n, g in gradients.items() if n.startswith(LEARNER_ONLY)}
            norm = torch.nn.utils.get_total_norm(list(critic.values()))
            scale = min(1.0, self._config.max_grad_norm / (float(norm) + 1e-6))
            gradients = {**gradients, **{n: g * scale for n, g in critic.items()}}
        super().apply_gradients(gradients)

    def state(self) -> dict[str, Any]:
        state = super().state()
        if self._trainer.scale:
            state["counters"]["value_scale"] = self._trainer.scale.state()
        return state

    def load_state(self, state: Mapping[str, Any]) -> None:
        super().load_state(state)
        if self._trainer.scale:
            self._trainer.scale.load_state(state["counters"]["value_scale"])


def _whole(values: Floats) -> tuple[Floats, slice]:
    """Return the values of all processes in order, and the slice of this process's values."""
    parts = processes.gather([values])
    start = sum(len(part) for part in parts[: processes.index()])
    return np.concatenate(parts), slice(start, start + len(values))


def _padded(rows: Sequence[Tensor], like: Tensor) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True).to(like.device)
