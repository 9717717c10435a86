"""GRPO learner on TRL's GRPOTrainer, stepped from outside.

TRL keeps the advantages, the clipped loss, the reference model, clipping, the schedule and the
metrics. It is handed episodes that were already played, through its `rollout_func`, and never
runs a loop of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from datasets import Dataset
from torch import Tensor
from trl import GRPOTrainer

from srl_train import processes
from srl_train.config.learning.learners import GrpoConfig, SurrogateConfig
from srl_train.errors import TrainingError
from srl_train.learners.answer_logprobs import Choices, answer_log_probs, choices_of
from srl_train.learners.lora import ADAPTER
from srl_train.learners.sampler_weights import Divergence, divergence, sampler_weights
from srl_train.learners.trl_options import grpo_arguments
from srl_train.learners.trl_stepped import SteppedLearner, common_arguments, isolated_randomness
from srl_train.learners.upstream_warnings import quiet_upstream
from srl_train.samples import TokenSample, per_token

REFERENCE = "ref"
"""The adapter that it adds where something holds the model back: a copy of that one."""


class PlayedGRPOTrainer(GRPOTrainer):  # type: ignore[misc]
    """GRPOTrainer for samples that were played before, in games.

    Log-probabilities are computed of the tokens that the model chose, and 0 elsewhere. What a
    sample brings is a column of the batch, which TRL shuffles and splits with all others:

    - `choices`: the model's own tokens, each with the ids that it was chosen from.
    - `old_per_token_logps`, of samples from older weights or another engine: the ratio is taken to
      the log-probabilities as sampled.
    - `advantages`, of samples that bring theirs turn by turn, in place of TRL's own.
    - `sampler_weights`, where what sampled is corrected for: the losses of tokens are multiplied by
      them, and the ratio is taken to this model as the update began.
    """

    surrogate: SurrogateConfig
    """Its settings, for the correction."""

    sampled_elsewhere: bool = False
    """Whether other weights sampled, or the same weights in another engine."""
    version: int | None = None
    """The model's update count; None once the update's first step has changed its weights."""
    divergences: list[Divergence]
    """From what sampled, of each pass over samples of the same weights."""
    newest_logps: Tensor
    """Log-probabilities (B, T) as taken last, detached."""
    choices: Sequence[Choices]
    """Of the rows whose log-probabilities are taken next."""

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        samples: list[TokenSample] = [row["sample"] for row in inputs]
        self.choices = [choices_of(sample) for sample in samples]
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        batch["choices"] = self.choices
        same = [sample.version == self.version for sample in samples]
        batch["same_weights"] = torch.tensor(same, device=batch["completion_ids"].device)
        if self.surrogate.sampler_correction != "none":
            batch = {**batch, **self._corrected(batch)}
        elif self.sampled_elsewhere:
            batch["old_per_token_logps"] = batch["sampling_per_token_logps"]
        if samples[0].advantages is not None:
            batch["advantages"] = advantages_of(samples, batch["completion_ids"])
        return batch

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        self.choices = inputs["choices"]
        if "sampler_weights" in inputs:
            own: Tensor = inputs["advantages"]  # every loss that is corrected is linear in them
            own = own[:, None] if own.dim() == 1 else own
            inputs = {**inputs, "advantages": own * inputs["sampler_weights"]}
        loss: Tensor = super()._compute_loss(model, inputs)
        if self.version is not None:
            mask = inputs["completion_mask"] * inputs["tool_mask"]
            mask = mask * inputs["same_weights"][:, None]
            sampled, cap = inputs["sampling_per_token_logps"], self.surrogate.sampler_cap
            self.divergences.append(divergence(self.newest_logps, sampled, mask, cap))
        return loss

    @torch.no_grad()
    def _corrected(self, batch: Mapping[str, Any]) -> dict[str, Tensor]:
        """Log-probabilities under the model as the update begins, and each token's weight."""
        completion, settings = batch["completion_ids"], self.surrogate
        now = batch.get("old_per_token_logps")  # TRL's own, where an update has several steps
        if now is None:
            now, _, _ = self._get_per_token_logps_and_entropies(
                self.model,
                torch.cat([batch["prompt_ids"], completion], dim=1),
                torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1),
                completion.size(1),
                batch_size=self.args.per_device_train_batch_size,
            )
        weights = sampler_weights(
            now,
            batch["sampling_per_token_logps"],
            batch["completion_mask"] * batch["tool_mask"],
            settings.sampler_correction,
            settings.sampler_level,
            settings.sampler_cap,
        )
        return {"old_per_token_logps": now, "sampler_weights": weights}

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: Tensor,
        attention_mask: Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        compute_aux_loss: bool = False,
        *images: Any,
        **more_images: Any,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        unwrapped = self.accelerator.unwrap_model(model)
        if hasattr(unwrapped, "peft_config"):
            unwrapped = unwrapped.get_base_model()
        size = batch_size or len(input_ids)
        parts = []
        for start in range(0, len(input_ids), size):
            part = slice(start, start + size)
            with self.accelerator.autocast():
                parts.append(
                    answer_log_probs(
                        model,
                        unwrapped,
                        input_ids[part],
                        attention_mask[part],
                        self.choices[part],
                        length=logits_to_keep,
                        temperature=self.temperature,
                        aux_loss=compute_aux_loss,
                    )
                )
        logps, entropies, aux_losses = zip(*parts, strict=True)
        self.newest_logps = torch.cat(logps).detach()
        return (
            torch.cat(logps),
            torch.cat(entropies) if compute_entropy else None,
            torch.stack(aux_losses).mean() if compute_aux_loss else None,
        )


def advantages_of(samples: Sequence[TokenSample], completion_ids: Tensor) -> Tensor:
    """Advantages (B, T) like `completion_ids`: each answer's tokens have their turn's, all other
    tokens have 0."""
    advantages = torch.zeros(completion_ids.shape, device=completion_ids.device)
    for row, sample in zip(advantages, samples, strict=True):
        if sample.advantages is None:
            raise ValueError("either all samples of an update bring advantages, or none does")
        values = per_token(sample, sample.advantages)
        row[: len(values)] = torch.tensor(values)
    return advantages


class PlayedLearner(SteppedLearner):
    """What GRPO and PPO share: TRL's clipped surrogate on samples that were already played."""

    _config: SurrogateConfig
    _make_trainer: Callable[..., Any]
    """A PlayedGRPOTrainer, from TRL's arguments."""

    def __init__(
        self,
        name: str,
        model: Any,
        tokenizer: Any,
        config: SurrogateConfig,
        *,
        group_size: int,
        temperature: float,
        planned_updates: int,
        max_divergence: float | None = None,
        seed: int = 0,
    ) -> None:
        """Build the trainer around `model`, a PreTrainedModel or PeftModel that stays ours.

        `group_size` samples in a row are compared with each other, `temperature` is what they are
        drawn at, `planned_updates` the length of the learning-rate schedule in updates;
        `max_divergence` says that another engine samples, and how far it may be from this one.
        """
        super().__init__(name, config, model, seed)
        self._group_size = group_size
        self._samples: Sequence[TokenSample] = ()
        self._max_divergence = max_divergence
        steps = planned_updates * self.steps_per_update
        with isolated_randomness(seed), quiet_upstream():
            trainer = self._make_trainer(
                model=model,
                reward_funcs=_episode_return,
                args=grpo_arguments(
                    {
                        **surrogate_arguments(config, model, steps, group_size, temperature),
                        **self._own_arguments(),
                    },
                    config.trl,
                ),
                train_dataset=_prompts(),
                processing_class=tokenizer,
                rollout_func=lambda prompts, trainer: self._played(),
            )
            # TRL tests the last token of an episode only: `_mask` tests that of each answer.
            trainer.mask_truncated_completions = False
            trainer.surrogate = config
            self._step_from_outside(trainer, steps)

    @property
    def steps_per_update(self) -> int:
        """Optimizer steps of one update."""
        return self._config.minibatches * self._config.num_iterations

    def begin_update(self, samples: Sequence[TokenSample], seed: int, version: int) -> int:
        """Take the samples of one update; returns its number of optimizer steps.

        `version` is the model's update count now: ratios of samples from older weights are taken
        to the log-probabilities as sampled. Of several processes each takes all samples and
        trains on its share; TRL compares the members of a group across them. A moving reference
        becomes the model's weights where `version` is a multiple of `reference_every`; TRL's own
        sync_ref_model does so in its own loop, and not for adapters. Raises TrainingError where the
        samples do not divide into groups, minibatches and processes.
        """
        self._check_number(samples)
        self._begin(seed)
        if self._config.reference == "moving" and version % self._config.reference_every == 0:
            self.set_reference(self.weights())
        older = any(s.version != version for s in samples)  # in any process
        self._samples = samples = processes.share_of(samples)
        self._trainer.sampled_elsewhere = older or self._max_divergence is not None
        self._trainer._step = 0  # a multiple of its generation period: it asks for our samples
        self._trainer.version, self._trainer.divergences = version, []
        return self.steps_per_update

    def _check_number(self, samples: Sequence[TokenSample]) -> None:
        parts = self._config.minibatches
        sizes = {"rollout.group_size": self._group_size, "algorithm.minibatches": parts}
        parts *= self._config.gradient_accumulation_steps
        sizes["minibatches x gradient_accumulation_steps"] = parts
        sizes["processes x minibatches x gradient_accumulation_steps"] = parts * processes.count()
        for what, size in sizes.items():
            if not samples or len(samples) % size:
                raise TrainingError(
                    f"{self.name} has {len(samples)} samples for an update: "
                    f"give a multiple of {what} ({size})"
                )

    def compute_gradients(self) -> dict[str, Tensor] | None:
        """The next step's gradients.

        Raises TrainingError where another engine sampled with other probabilities than ours: the
        mean absolute difference in log-probability, over the tokens of the update's first step, is
        above `max_divergence`.
        """
        first = self._steps_done == 0
        gradients = super().compute_gradients()
        if first:
            self._compare_with_sampler()
            self._trainer.version = None  # from here on the weights are others
        return gradients

    def _compare_with_sampler(self) -> None:
        sums, largest, beyond, kl, counts = zip(*self._trainer.divergences, strict=True)
        tokens = sum(counts)
        if not tokens:
            return
        mean = sum(sums) / tokens
        metrics = self._trainer._metrics["train"]
        metrics["sampler_divergence/mean"].append(mean)
        metrics["sampler_divergence/max"].append(max(largest))
        metrics["sampler_divergence/beyond"].append(sum(beyond) / tokens)
        metrics["sampler_divergence/kl"].append(sum(kl) / tokens)
        limit = self._max_divergence
        if limit is not None and not mean <= limit:
            raise TrainingError(
                f"{self.name}: sampler and trainer differ by {mean:.3g} in log-probability, on "
                f"average over {int(tokens)} tokens; backend.max_divergence is "
                f"{limit:g}: is the server's dtype, or its base, another one?"
            )

    def end_update(self) -> dict[str, float]:
        """TRL's metrics since `begin_update`, averaged."""
        self._samples = ()
        self._trainer._buffered_inputs = None
        return super().end_update()

    def reference(self) -> dict[str, Tensor]:
        """TRL's reference model, or its reference adapter; empty with a beta of 0."""
        trainer = self._trainer
        if not trainer.beta:
            return {}
        unwrapped = trainer.accelerator.unwrap_model
        if trainer.ref_model is not None:
            held, names = unwrapped(trainer.ref_model), {name: name for name in self._names}
        else:
            held = unwrapped(trainer.model)
            names = {n: n.replace(f".{ADAPTER}.", f".{REFERENCE}.") for n in self._names}
        return {name: held.get_parameter(there).detach() for name, there in names.items()}

    def counters(self) -> dict[str, Any]:
        """The schedule, the steps so far, and where an adaptive entropy bonus stands."""
        trainer = self._trainer
        entropy = [trainer.entropy_coef, trainer._last_world_entropy]
        return {**super().counters(), **({"entropy": entropy} if _adapts(trainer) else {})}

    def _first_counters(self) -> dict[str, Any]:
        own = super()._first_counters()
        return own | ({"entropy": [0.0, None]} if "entropy" in own else {})

    def load_counters(self, counters: Mapping[str, Any]) -> None:
        """Restore what `counters` gave."""
        super().load_counters(counters)
        if "entropy" in counters:
            self._trainer.entropy_coef, self._trainer._last_world_entropy = counters["entropy"]

    def _inputs(self) -> Any:
        return [{"prompt": "-", "sample": sample} for sample in self._samples]

    def _played(self) -> dict[str, Any]:
        samples = self._samples
        return {
            "prompt_ids": [list(s.prompt_ids) for s in samples],
            "completion_ids": [list(s.completion_ids) for s in samples],
            "logprobs": [list(s.logprobs) for s in samples],
            "env_mask": [self._mask(s) for s in samples],
        }

    def _mask(self, sample: TokenSample) -> list[int]:
        """Return the mask of a sample, 0 on answers that were cut off where the settings say so."""
        mask, trainer = list(sample.mask), self._trainer
        if self._config.trl.get("mask_truncated_completions"):
            ends = {*trainer.eos_token_ids, trainer._tokenizer.pad_token_id}
            for start, stop in sample.turns:
                if sample.completion_ids[stop - 1] not in ends:
                    mask[start:stop] = [0] * (stop - start)
        return mask


class GrpoLearner(PlayedLearner):
    """One model under GRPO; see the Learner protocol for the methods."""

    _config: GrpoConfig
    _make_trainer = PlayedGRPOTrainer

    def _own_arguments(self) -> dict[str, Any]:
        return {"scale_rewards": self._config.scale_rewards}


@cache
def _prompts() -> Dataset:
    """What TRL wants to see and nobody reads; to make it takes a quarter of a learner's time."""
    return Dataset.from_list([{"prompt": "-"}] * 4)


def _episode_return(
    prompts: Sequence[str], completions: Sequence[str], sample: Sequence[TokenSample], **_: Any
) -> list[float]:
    return [one.episode_return for one in sample]


def _adapts(trainer: Any) -> bool:
    # Before the first update TRL holds an infinity, which is not plain data.
    return bool(trainer.use_adaptive_entropy) and math.isfinite(trainer._last_world_entropy)


def surrogate_arguments(
    config: SurrogateConfig, model: Any, steps: int, group_size: int, temperature: float
) -> dict[str, Any]:
    """GRPOConfig's arguments for played samples, advantages left out."""
    return {
        **common_arguments(config, model, steps, config.gradient_accumulation_steps),
        "per_device_train_batch_size": group_size,
        "steps_per_generation": config.minibatches * config.gradient_accumulation_steps,
        "num_generations": group_size,
        "num_iterations": config.num_iterations,
        "temperature": temperature,
        "epsilon": config.clip_range,
        "beta": config.beta,
        "loss_type": config.loss,
    }
