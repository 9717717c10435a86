"""CoMLRL's MAGRPO in the common-payoff game; needs CoMLRL and no package of this library."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from comlrl.trainers.reinforce.magrpo import MAGRPOConfig, MAGRPOTrainer
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer

sys.path.insert(0, str(Path(__file__).parent))
from words import CHOICES, GROUP, NODES, PAYOFFS, RULES, TURNS, Rounds, report, situation


def choice_of(answer: str) -> int:
    """Return the number of an answer's choice; the second one if it has none."""
    return 0 if answer.strip().startswith(CHOICES[0]) else 1


class Watched(MAGRPOTrainer):  # type: ignore[misc]
    """A trainer that records a round at each update of all agents."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.rounds = Rounds()
        self.paid: list[float] = []

    def _generate_completions(self, *arguments: Any, **named: Any) -> dict[str, Any]:
        made: dict[str, Any] = super()._generate_completions(*arguments, **named)
        self.rounds.tokens += sum(made["response_lens"])
        return made

    def _drain_ready_buffers(self, ready_agents: list[int]) -> None:
        super()._drain_ready_buffers(ready_agents)
        if self.num_agents - 1 in ready_agents:
            self.rounds.end(float(np.mean(self.paid)))
            self.paid.clear()


def train(given: Mapping[str, Any]) -> None:
    """Train two models, one update of all turns per tree of answers."""
    torch.set_num_threads(1)
    torch.manual_seed(given["seed"])
    tokenizer = AutoTokenizer.from_pretrained(given["base"], trust_remote_code=False)
    rules = [{"role": "system", "content": RULES}]

    def text(messages: Sequence[Mapping[str, str]], *, answer: bool) -> str:
        written: str = tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=answer
        )
        return written

    def user(turn: int, last: tuple[int, int] | None) -> dict[str, str]:
        return {"role": "user", "content": situation(turn, last)}

    def reward(*answers: Sequence[str]) -> list[float]:
        paid = [PAYOFFS[choice_of(one), choice_of(two)] for one, two in zip(*answers, strict=True)]
        trainer.paid.extend(paid)
        return paid

    def transition(
        prompt: str, agent_completions: Sequence[str], num_agents: int,
        prompt_history_per_agent: Sequence[Sequence[str]],
        response_history_per_agent: Sequence[Sequence[str]],
    ) -> list[str]:  # fmt: skip
        chosen = [choice_of(answer) for answer in agent_completions]
        turn = len(response_history_per_agent[0]) + 1
        prompts = []
        for agent in range(num_agents):
            message = user(turn, (chosen[agent], chosen[1 - agent]))
            added = text([*rules, message], answer=True).removeprefix(text(rules, answer=False))
            answer = f"{CHOICES[chosen[agent]]}{tokenizer.eos_token}\n"
            prompts.append(prompt_history_per_agent[agent][-1] + answer + added)
        return prompts

    load = AutoModelForCausalLM.from_pretrained
    start = {"prompt": text([*rules, user(1, None)], answer=True)}
    trainer = Watched(
        agents=[load(given["base"], trust_remote_code=False) for _ in range(2)],
        num_agents=2,
        tokenizer=tokenizer,
        reward_func=reward,
        formatters=[lambda row: row["prompt"]] * 2,
        external_transition=transition,
        args=MAGRPOConfig(
            num_train_epochs=1, agent_learning_rate=given["rate"], num_agents=2,
            num_generations=GROUP, max_new_tokens=4, temperature=1.0, top_p=1.0, top_k=0,
            num_turns=TURNS, early_termination_threshold=None, eval_interval=0,
            rollout_buffer_size=NODES, train_batch_size=NODES, external_prompt_passthrough=True,
        ),
        train_dataset=Dataset.from_list([start] * given["rounds"]),
    )  # fmt: skip
    trainer.verbose = False
    trainer.train()
    report(trainer.rounds, TURNS, NODES * GROUP * 2)


if __name__ == "__main__":
    train(json.loads(sys.argv[1]))
