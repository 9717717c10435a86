"""TRL's GRPOTrainer against tit for tat, with a rollout function as a user writes it."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from benchmarks.peer_sides import games
from benchmarks.peer_sides.words import Rounds, report
from srl_agents.partners import WithPartners
from srl_agents.scripted.registry import classic_policy
from srl_envs.text import TextEnv

TURNS, GROUPS, GROUP = 4, 4, 16
NEXT = "\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"


class RoundsOfTrl(Rounds, TrainerCallback):  # type: ignore[misc]
    reward = 0.0

    def on_step_end(self, *arguments: Any, **named: Any) -> None:
        self.end(self.reward)


def new_game() -> Any:
    """Return the game as texts, with tit for tat as agent_1."""
    env = games.solo()
    return TextEnv(WithPartners(env, {"agent_1": classic_policy("tit_for_tat", env)}))


def train(given: Mapping[str, Any]) -> None:
    """Train one model; each turn is one call of `generate` for all episodes."""
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(given["base"], trust_remote_code=False)
    rounds = RoundsOfTrl()

    def rollout(prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
        envs = [new_game() for _ in prompts]
        seeds = [1000 * len(rounds.rewards) + number // GROUP for number in range(len(envs))]
        texts = [env.reset(seed=seed)[0]["agent_0"] for env, seed in zip(envs, seeds, strict=True)]
        chats = [[{"role": "user", "content": text}] for text in texts]
        first = tokenizer.apply_chat_template(chats, add_generation_prompt=True)["input_ids"]
        contexts = [list(ids) for ids in first]
        mask: list[list[int]] = [[] for _ in envs]
        logprobs: list[list[float]] = [[] for _ in envs]
        returns = [0.0] * len(envs)
        model = trainer.model.eval()
        for turn in range(TURNS):
            answers = sample(model, contexts, tokenizer)
            for number, (env, (ids, chances)) in enumerate(zip(envs, answers, strict=True)):
                contexts[number] += ids
                mask[number] += [1] * len(ids)
                logprobs[number] += chances
                rounds.tokens += len(ids)
                answer = tokenizer.decode(ids, skip_special_tokens=True)
                seen, paid, *_ = env.step({"agent_0": answer})
                returns[number] += paid["agent_0"]
                if turn < TURNS - 1:
                    read = tokenizer.encode(NEXT.format(seen["agent_0"]), add_special_tokens=False)
                    contexts[number] += read
                    mask[number] += [0] * len(read)
                    logprobs[number] += [0.0] * len(read)
        model.train()
        rounds.reward = sum(returns) / TURNS / len(returns)
        return {
            "prompt_ids": first,
            "completion_ids": [ids[len(head):] for ids, head in zip(contexts, first, strict=True)],
            "logprobs": logprobs,
            "env_mask": mask,
            "paid": returns,
        }  # fmt: skip

    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(given["base"], trust_remote_code=False),
        processing_class=tokenizer,
        train_dataset=Dataset.from_list([{"prompt": "-"}] * GROUPS * GROUP),
        reward_funcs=lambda prompts, completions, paid, **_: list(paid),
        rollout_func=rollout,
        args=GRPOConfig(
            output_dir=tempfile.gettempdir(), num_generations=GROUP,
            per_device_train_batch_size=GROUPS * GROUP, max_steps=given["rounds"],
            learning_rate=given["rate"], lr_scheduler_type="constant", seed=given["seed"],
            use_cpu=True, bf16=False, report_to=[], save_strategy="no", logging_strategy="no",
            disable_tqdm=True, gradient_checkpointing=False,
        ),
    )  # fmt: skip
    trainer.add_callback(rounds)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    report(rounds, 1, GROUPS * GROUP * TURNS)


@torch.no_grad()
def sample(
    model: Any, contexts: Sequence[Sequence[int]], tokenizer: Any
) -> list[tuple[list[int], list[float]]]:
    """Return the sampled token ids and log-probabilities that follow each context."""
    batch = tokenizer.pad({"input_ids": contexts}, padding_side="left", return_tensors="pt")
    found = model.generate(
        **batch, max_new_tokens=4, do_sample=True, temperature=1.0, top_k=0, top_p=1.0,
        return_dict_in_generate=True, output_logits=True,
    )  # fmt: skip
    logprobs = torch.stack(found.logits, 1).log_softmax(-1)
    answers = []
    for row, chances in zip(
        found.sequences[:, -len(found.logits) :].tolist(), logprobs, strict=True
    ):
        end = row.index(tokenizer.eos_token_id) + 1 if tokenizer.eos_token_id in row else len(row)
        answers.append((row[:end], [float(chances[n, row[n]]) for n in range(end)]))
    return answers


if __name__ == "__main__":
    train(json.loads(sys.argv[1]))
