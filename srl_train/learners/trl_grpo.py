"""GRPO learner on TRL's GRPOTrainer, stepped from outside.

TRL receives episodes that were already played through its `rollout_func`.
"""

from __future__ import annotations

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
from srl_train.learners.logprobs import answer_log_probs
from srl_train.learners.lora import ADAPTER
from srl_train.learners.trl_arguments import common_arguments, grpo_arguments
from srl_train.learners.trl_stepped import SteppedLearner, isolated_randomness
from srl_train.learners.upstream_warnings import quiet_upstream
from srl_train.samples import JointState, TokenSample

REFERENCE = "ref"
"""TRL's name for the copy of the adapter that serves as the reference model."""


class PlayedGRPOTrainer(GRPOTrainer):  # type: ignore[misc]
    """GRPOTrainer that trains on TokenSamples of episodes that were already played.

    Each input row contains its TokenSample as "sample"; `rollout_func` returns the tokens of the
    same samples in the same order. The learner sets the fields up to `divergences`.

    Log-probabilities are computed for tokens that the model chose, and are 0 elsewhere. Advantages
    replace TRL's, if all samples of an update have them. If samples are from older weights or
    another engine, the ratio refers to their log-probabilities at sampling time. With a sampler
    correction it refers to this model at the start of the update, and token losses have weights.
    """

    surrogate: SurrogateConfig
    sampled_elsewhere: bool = False
    """True if older weights, or another engine, sampled."""
    version: int | None = None
    """The model's update count; None after the first step of an update."""
    divergences: list[Tensor]
    """Absolute differences in log-probability from the sampler, over the chosen tokens (N,) of
    samples of the same weights; one tensor per forward pass of the first step."""
    newest_logps: Tensor
    """Latest log-probabilities (B, T), detached."""
    samples: Sequence[TokenSample]
    """Samples of the rows in the next forward pass."""

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        samples: list[TokenSample] = [row["sample"] for row in inputs]
        self.samples = samples
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        batch["samples"] = samples
        same = [sample.version == self.version for sample in samples]
        batch["same_weights"] = torch.tensor(same, device=batch["completion_ids"].device)
        if self.surrogate.sampler_correction != "none":
            batch = {**batch, **self._corrected(batch)}
        elif self.sampled_elsewhere:
            batch["old_per_token_logps"] = batch["sampling_per_token_logps"]
        if samples[0].advantages is not None:
            # ValueError by zip if other samples of the update have no advantages.
            advantages = [sample.advantages or () for sample in samples]
            batch["advantages"] = on_tokens(samples, advantages, batch["completion_ids"])
        return batch

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        self.samples = inputs["samples"]
        if "sampler_weights" in inputs:
            # Every loss that supports a correction is linear in the advantages.
            advantages: Tensor = inputs["advantages"]
            advantages = advantages[:, None] if advantages.dim() == 1 else advantages
            inputs = {**inputs, "advantages": advantages * inputs["sampler_weights"]}
        loss: Tensor = super()._compute_loss(model, inputs)
        if self.version is not None:
            mask = inputs["completion_mask"] * inputs["tool_mask"]
            mask = mask * inputs["same_weights"][:, None]
            apart = self.newest_logps - inputs["sampling_per_token_logps"]
            self.divergences.append(apart[mask.bool()].float().abs())
        return loss

    @torch.no_grad()
    def _corrected(self, batch: Mapping[str, Any]) -> dict[str, Tensor]:
        completion, settings = batch["completion_ids"], self.surrogate
        now = batch.get("old_per_token_logps")  # computed by TRL if an update has several steps
        if now is None:
            now, _, _ = self._get_per_token_logps_and_entropies(
                self.model,
                torch.cat([batch["prompt_ids"], completion], dim=1),
                torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1),
                completion.size(1),
                batch_size=self.args.per_device_train_batch_size,
            )
        mask = batch["completion_mask"] * batch["tool_mask"]
        apart = (now - batch["sampling_per_token_logps"]) * mask
        ratio = apart.nan_to_num(nan=0.0).exp()  # NaN: unknown to the sampler
        if settings.sampler_correction == "tis":
            weights = ratio.clamp(max=settings.sampler_cap)
        else:
            weights = ratio.masked_fill(ratio > settings.sampler_cap, 0.0)
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
                        self.samples[part],
                        length=logits_to_keep,
                        pad_id=self._tokenizer.pad_token_id,
                        rows_at_once=self.args.per_device_train_batch_size,
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


def on_tokens(
    samples: Sequence[TokenSample], values: Sequence[Sequence[float]], completion_ids: Tensor
) -> Tensor:
    """Return a value per completion token, (B, T) as `completion_ids` and on its device.

    `values` has one value per answer of each sample, for all tokens of the answer. Others are 0.
    """
    found = torch.zeros(completion_ids.shape)
    for row, sample, own in zip(found, samples, values, strict=True):
        for (start, stop), value in zip(sample.turns, own, strict=True):
            row[start:stop] = value
    return found.to(completion_ids.device)


class PlayedLearner(SteppedLearner):
    """Base class of learners with TRL's clipped surrogate, on episodes that were already played.

    Args:
        model: PreTrainedModel or PeftModel, whose trainable parameters are trained in place.
        group_size: Number of consecutive samples that are compared.
        temperature: Temperature with which the samples were drawn.
        planned_updates: Number of updates of the run, for the learning-rate schedule.
        max_divergence: Limit of the mean absolute difference in log-probability from another
            sampling engine; None if the model itself samples.
        discount: Discount per step, for subclasses that estimate values.
        joint: Agents and length of `TokenSample.states`, for subclasses; None without states.
        seed: Seed of the trainer's construction.
    """

    _config: SurrogateConfig
    _make_trainer: Callable[..., Any]

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
        discount: float = 1.0,
        joint: JointState | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(name, config, model, seed)
        self._group_size = group_size
        self._samples: Sequence[TokenSample] = ()
        self._max_divergence = max_divergence
        steps = planned_updates * self.steps_per_update
        arguments = {
            **common_arguments(config, model, steps, config.gradient_accumulation_steps),
            "per_device_train_batch_size": group_size,
            "steps_per_generation": config.minibatches * config.gradient_accumulation_steps,
            "num_generations": group_size,
            "num_iterations": config.num_iterations,
            "temperature": temperature,
            "epsilon": config.clip_range,
            "beta": config.beta,
            "loss_type": config.loss,
            **self._own_arguments(),
        }
        with isolated_randomness(seed), quiet_upstream():
            trainer = self._make_trainer(
                model=model,
                reward_funcs=_episode_return,
                args=grpo_arguments(arguments, config.trl),
                train_dataset=_prompts(),
                processing_class=tokenizer,
                rollout_func=lambda prompts, trainer: self._played(),
            )
            # TRL tests only the last token of an episode: `_mask` tests that of each answer.
            trainer.mask_truncated_completions = False
            trainer.surrogate = config
            self._step_from_outside(trainer, steps)

    @property
    def steps_per_update(self) -> int:
        return self._config.minibatches * self._config.num_iterations

    def begin_update(self, samples: Sequence[TokenSample], seed: int, version: int) -> int:
        """Start one update and return its number of optimizer steps (see `Learner.begin_update`).

        Every process receives all samples and trains on its part. With `reference` "moving", the
        reference becomes a copy of the model if `version` is a multiple of `reference_every`.

        Raises TrainingError unless the number of samples is a multiple, above 0, of `group_size`
        and of processes x `minibatches` x `gradient_accumulation_steps`.
        """
        config = self._config
        size = config.minibatches * config.gradient_accumulation_steps * processes.count()
        for what, number in {
            "rollout.group_size": self._group_size,
            "processes x minibatches x gradient_accumulation_steps": size,
        }.items():
            if not samples or len(samples) % number:
                raise TrainingError(
                    f"{self.name} has {len(samples)} samples for an update, "
                    f"must be a multiple of {what} ({number})"
                )
        self._begin(seed)
        if config.reference == "moving" and version % config.reference_every == 0:
            # TRL's sync_ref_model runs only in its own loop, and not for adapters.
            self.set_reference(self.weights())
        older = any(s.version != version for s in samples)  # in any process
        self._samples = samples = processes.share_of(samples)
        self._trainer.sampled_elsewhere = older or self._max_divergence is not None
        self._trainer._step = 0  # a multiple of the generation period: TRL requests samples
        self._trainer.version, self._trainer.divergences = version, []
        return self.steps_per_update

    def compute_gradients(self) -> dict[str, Tensor]:
        """Return the next step's gradients by parameter name, unclipped.

        Raises TrainingError if the loss is not finite, or, in an update's first step, if the
        sampler's log-probabilities differ by more than `max_divergence` on average.
        """
        first = self._steps_done == 0
        gradients = super().compute_gradients()
        if first:
            self._compare_with_sampler()
            self._trainer.version = None  # the weights change from here on
        return gradients

    def _compare_with_sampler(self) -> None:
        apart = torch.cat(self._trainer.divergences)
        if not len(apart):
            return
        mean = apart.sum().item() / len(apart)
        metrics = self._trainer._metrics["train"]
        metrics["sampler_divergence/mean"].append(mean)
        metrics["sampler_divergence/max"].append(apart.max().item())
        limit = self._max_divergence
        if limit is not None and not mean <= limit:
            raise TrainingError(
                f"{self.name}: sampler and trainer differ by {mean:.3g} in log-probability, on "
                f"average over {len(apart)} tokens; backend.max_divergence is {limit:g}. "
                "Compare the server's dtype and base model with the trainer's"
            )

    def end_update(self) -> dict[str, float]:
        self._samples = ()
        self._trainer._buffered_inputs = None
        return super().end_update()

    def reference(self) -> dict[str, Tensor]:
        trainer = self._trainer
        if not trainer.beta:
            return {}
        unwrapped = trainer.accelerator.unwrap_model
        if trainer.ref_model is not None:
            module, names = unwrapped(trainer.ref_model), {name: name for name in self._names}
        else:
            module = unwrapped(trainer.model)
            names = {n: n.replace(f".{ADAPTER}.", f".{REFERENCE}.") for n in self._names}
        return {name: module.get_parameter(there).detach() for name, there in names.items()}

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
        mask, trainer = list(sample.mask), self._trainer
        if self._config.trl.get("mask_truncated_completions"):
            ends = {*trainer.eos_token_ids, trainer._tokenizer.pad_token_id}
            for start, stop in sample.turns:
                if sample.completion_ids[stop - 1] not in ends:
                    mask[start:stop] = [0] * (stop - start)
        return mask


class GrpoLearner(PlayedLearner):
    """Learner of one model by GRPO, on TRL's GRPOTrainer."""

    _config: GrpoConfig
    _make_trainer = PlayedGRPOTrainer

    def _own_arguments(self) -> dict[str, Any]:
        return {"scale_rewards": self._config.scale_rewards}


@cache
def _prompts() -> Dataset:
    return Dataset.from_list([{"prompt": "-"}] * 4)


def _episode_return(
    prompts: Sequence[str], completions: Sequence[str], sample: Sequence[TokenSample], **_: Any
) -> list[float]:
    return [one.episode_return for one in sample]
