"""Speed of the demo's rollout, compared with re-prefilling `model.generate` every turn.

python -m benchmarks.rollout_speed [--episodes 32] [--turns 8] [--repeats 5] [--markdown FILE]

Four tiny models play coop_compete with four agents on one thread. All ways to sample play the same
seeds in turns, and the median of the repeats counts. The reference answers with `model.generate`
over the whole conversation, in one batch of the same rows, without log-probabilities.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # The tokenizer uses one thread as well.

import torch
import transformers
from transformers import GenerationConfig

from benchmarks import records
from benchmarks.records import Check, Repeats, in_turns
from srl_agents.llm import tiny
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.backends.token_backend import Completion, Request
from srl_agents.llm.sampling import Sampling
from srl_agents.llm.text_policy import TextPolicy
from srl_agents.rollout import play_many
from srl_envs import registry
from srl_train.config.models import AdapterConfig
from srl_train.learners.lora import adapter_models, side_by_side

AGENTS = [f"agent_{agent}" for agent in range(4)]
MODELS, ADAPTERS = "4 models", "4 adapters in one batch"
REFERENCE = "model.generate, re-prefilled every turn"
KEPT, CONSTRAINED = "cache kept", "cache kept, constrained choice"
LEAST = 2.5  # times the reference's speed, with the cache kept


class GenerateBackend(HuggingFaceBackend):
    """The reference, which keeps nothing between turns."""

    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        width = max(len(request.context) for request in requests)
        pad, end = self.tokenizer.pad_token_id, self.chat.end_of_turn
        ids = torch.full((len(requests), width), pad)
        for row, request in enumerate(requests):
            ids[row, width - len(request.context) :] = torch.tensor(request.context)
        settings = GenerationConfig(
            do_sample=True, top_k=0, max_new_tokens=requests[0].sampling.max_new_tokens,
            eos_token_id=end, pad_token_id=pad,
        )  # fmt: skip
        adapters = [request.adapter for request in requests]
        named = {"adapter_names": adapters} if adapters[0] else {}
        mask = (ids != pad).long()
        with torch.inference_mode():
            written = self.model.generate(
                input_ids=ids, attention_mask=mask, generation_config=settings, **named
            )[:, width:].tolist()
        answers = [row[: row.index(end) + 1] if end in row else row for row in written]
        return [
            Completion(tuple(own), (0.0,) * len(own), end in own, self.identity())
            for own in answers
        ]


def variants(make_env: Callable[[], Any]) -> dict[tuple[str, str], dict[str, TextPolicy]]:
    """Load all models; return (kind of models, way to sample) -> policy of each agent."""
    folder = tiny.folder(make_env)
    view, sampling = make_env().unwrapped.text_view, Sampling(max_new_tokens=4)
    found: dict[tuple[str, str], dict[str, TextPolicy]] = {}
    for way in (REFERENCE, KEPT, CONSTRAINED):
        kind = GenerateBackend if way == REFERENCE else HuggingFaceBackend
        constrained = way == CONSTRAINED
        make = functools.partial(TextPolicy, view=view, sampling=sampling, constrained=constrained)
        load = functools.partial(kind.load, folder, device="cpu")
        found[MODELS, way] = {agent: make(load(name=agent)) for agent in AGENTS}
        base, lora = load(name="shared"), AdapterConfig(rank=16)
        models = adapter_models(base.model, AGENTS, lora, seed=0)
        shared = base.with_model(side_by_side(base.model, models, lora).eval())
        policy = make(shared, adapter={agent: agent for agent in AGENTS})
        found[ADAPTERS, way] = dict.fromkeys(AGENTS, policy)
    return found


def measure(
    make_env: Callable[[], Any],
    compared: Mapping[tuple[str, str], Mapping[str, TextPolicy]],
    episodes: int,
    repeats: int,
) -> dict[tuple[str, str], Repeats]:
    """Measure rollouts of `episodes` episodes; return variant -> CPU seconds of each repeat."""

    def rollout(name: tuple[str, str], repeat: int) -> float:
        seeds = range(repeat * episodes, (repeat + 1) * episodes)
        start = time.process_time()
        played = play_many(make_env, compared[name], seeds)
        spent = time.process_time() - start
        if failed := [episode.failure for episode in played if episode.failure]:
            raise SystemExit(f"{name}: {failed[0]}")
        return spent

    sides = {name: functools.partial(rollout, name) for name in compared}
    return in_turns(sides, repeats, warm_ups=1)


def tables(seconds: Mapping[tuple[str, str], Repeats], answers: int) -> tuple[str, list[Check]]:
    """Return the table of measured seconds as Markdown, for `answers` per rollout, and checks."""
    lines, checks = [], []
    for (models, way), own in seconds.items():
        faster = seconds[models, REFERENCE].middle / own.middle
        each = 1000 * own.middle / answers
        lines.append((f"{models}, {way}", f"{own:.3f}", f"{each:.3f}", f"{faster:.2f}"))
        if way == KEPT:
            claim = f"{models}: at least {LEAST} times faster than re-prefilling"
            checks.append(Check(claim, faster >= LEAST, f"{faster:.2f} times"))
    headers = ("models and rollout", "CPU-s", "ms per answer", "times faster")
    return records.table(headers, lines), checks


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and record."""
    parser = records.parser(__doc__)
    parser.add_argument("--episodes", type=int, default=32, help="per rollout")
    parser.add_argument("--turns", type=int, default=8, help="per episode")
    parser.add_argument("--repeats", type=int, default=5, help="measured rollouts per variant")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    game = {"num_agents": len(AGENTS), "max_cycles": options.turns}
    make_env = functools.partial(registry.make, "coop_compete_v0", **game)
    seconds = measure(make_env, variants(make_env), options.episodes, options.repeats)
    markdown, checks = tables(seconds, options.episodes * options.turns * len(AGENTS))
    head = f"{options.episodes} episodes x {options.turns} turns x {len(AGENTS)} agents, one thread"
    return records.keep(f"{head}\n\n{markdown}", options, checks)


if __name__ == "__main__":
    raise SystemExit(main())
