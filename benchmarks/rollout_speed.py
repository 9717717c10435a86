"""How fast the demo's rollout is, against re-prefilling `model.generate` every turn.

python -m benchmarks.rollout_speed [--episodes 32] [--turns 8] [--repeats 5] [--json PATH]

Four tiny models play coop_compete with four seats, as in the demo, on one thread. Every variant
plays the same seeds in the same run, one after the other; the median of the repeats counts. A
reference answers with `model.generate` over the whole conversation, in one batch of the same rows
and with the same settings; it is not asked for log-probabilities, which ours always returns.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # one thread, in the tokenizer too

import torch
import transformers
from peft import LoraConfig, get_peft_model
from transformers import GenerationConfig

from srl_agents.llm import tiny
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.backends.token_backend import Completion, Request
from srl_agents.llm.sampling import Sampling
from srl_agents.llm.text_policy import TextPolicy
from srl_agents.rollout import play_many
from srl_envs import registry

SEATS = [f"agent_{seat}" for seat in range(4)]
MODELS, ADAPTERS = "4 models", "4 adapters in one batch"
REFERENCE = "model.generate, re-prefilled every turn"
KEPT, CONSTRAINED = "cache kept", "cache kept, constrained choice"


class GenerateBackend(HuggingFaceBackend):
    """The reference: nothing is kept between turns."""

    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """One completion per request, by `model.generate` over the whole context."""
        width = max(len(request.context) for request in requests)
        pad = self.tokenizer.pad_token_id
        ids = torch.full((len(requests), width), pad)
        for row, request in enumerate(requests):
            ids[row, width - len(request.context) :] = torch.tensor(request.context)
        settings = GenerationConfig(
            do_sample=True,
            top_k=0,
            max_new_tokens=requests[0].sampling.max_new_tokens,
            eos_token_id=self.chat.end_of_turn,
            pad_token_id=pad,
        )
        adapters = [request.adapter for request in requests]
        extra = {"adapter_names": adapters} if adapters[0] else {}
        with torch.inference_mode():
            written = self.model.generate(
                input_ids=ids,
                attention_mask=(ids != pad).long(),
                generation_config=settings,
                **extra,
            )[:, width:].tolist()
        return [self._completion(row) for row in written]

    def _completion(self, row: list[int]) -> Completion:
        ended = self.chat.end_of_turn in row
        ids = row[: row.index(self.chat.end_of_turn) + 1] if ended else row
        return Completion(tuple(ids), (0.0,) * len(ids), ended, self.identity())


def game(turns: int) -> Callable[[], Any]:
    """The demo's environment, with episodes of this many turns."""
    return lambda: registry.make("coop_compete_v0", num_agents=len(SEATS), max_cycles=turns)


def variants(
    make_env: Callable[[], Any], max_new_tokens: int
) -> dict[tuple[str, str], dict[str, TextPolicy]]:
    """What is compared: (kind of models, way to sample) -> policy per seat."""
    folder = tiny.folder(make_env)
    view = make_env().unwrapped.text_view
    sampling = Sampling(max_new_tokens=max_new_tokens)

    def separate(kind: type[HuggingFaceBackend], constrained: bool) -> dict[str, TextPolicy]:
        return {
            seat: TextPolicy(
                kind.load(folder, device="cpu", name=seat),
                view,
                sampling=sampling,
                constrained=constrained,
            )
            for seat in SEATS
        }

    def shared(kind: type[HuggingFaceBackend], constrained: bool) -> dict[str, TextPolicy]:
        base = HuggingFaceBackend.load(folder, device="cpu")
        lora = LoraConfig(r=16, target_modules="all-linear", init_lora_weights=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # peft reads a name that is retiring
            model = get_peft_model(base.model, lora, adapter_name=SEATS[0])
            for seat in SEATS[1:]:
                model.add_adapter(seat, lora)
        with torch.no_grad():  # small changes, so that the answers stay what they were
            for name, parameter in model.named_parameters():
                if "lora_B" in name:
                    parameter.mul_(0.01)
        policy = TextPolicy(
            kind(model.eval(), base.tokenizer, name="shared"),
            view,
            sampling=sampling,
            adapter={seat: seat for seat in SEATS},
            constrained=constrained,
        )
        return dict.fromkeys(SEATS, policy)

    return {
        (models, way): seated(kind, way == CONSTRAINED)
        for models, seated in ((MODELS, separate), (ADAPTERS, shared))
        for way, kind in (
            (REFERENCE, GenerateBackend),
            (KEPT, HuggingFaceBackend),
            (CONSTRAINED, HuggingFaceBackend),
        )
    }


def measure(
    make_env: Callable[[], Any],
    compared: Mapping[tuple[str, str], Mapping[str, TextPolicy]],
    episodes: int,
    repeats: int,
) -> dict[tuple[str, str], list[float]]:
    """CPU seconds per rollout, one number per repeat; a first rollout is thrown away."""
    seconds: dict[tuple[str, str], list[float]] = {name: [] for name in compared}
    for repeat in range(repeats + 1):
        for name, seats in compared.items():
            seeds = range(repeat * episodes, (repeat + 1) * episodes)
            start = time.process_time()
            played = play_many(make_env, seats, seeds)
            spent = time.process_time() - start
            failed = [episode.failure for episode in played if episode.failure]
            if failed:
                raise SystemExit(f"{name}: {failed[0]}")
            if repeat:
                seconds[name].append(spent)
    return seconds


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print a table; `--json PATH` keeps the numbers with their circumstances."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--episodes", type=int, default=32, help="per rollout")
    parser.add_argument("--turns", type=int, default=8, help="per episode")
    parser.add_argument("--repeats", type=int, default=5, help="measured rollouts per variant")
    parser.add_argument("--max-new-tokens", type=int, default=4)
    parser.add_argument("--json", help="also write the result to this file")
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    make_env = game(asked.turns)
    compared = variants(make_env, asked.max_new_tokens)
    seconds = measure(make_env, compared, asked.episodes, asked.repeats)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    answers = asked.episodes * asked.turns * len(SEATS)
    print(f"{asked.episodes} episodes x {asked.turns} turns x {len(SEATS)} seats, one thread\n")
    print(f"{'models':24} {'rollout':40} {'CPU-s':>6} {'ms/answer':>10} {'times faster':>13}")
    for (models, way), value in medians.items():
        faster = medians[models, REFERENCE] / value
        print(f"{models:24} {way:40} {value:6.3f} {1000 * value / answers:10.3f} {faster:13.2f}")
    if asked.json:
        record = {
            "command": "python -m benchmarks.rollout_speed",
            "settings": vars(asked),
            "cpu_seconds": {", ".join(name): values for name, values in seconds.items()},
            "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        }
        with open(asked.json, "w", encoding="utf-8") as file:
            json.dump(record, file, indent=1)


if __name__ == "__main__":
    main()
