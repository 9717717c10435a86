"""How much faster grouped calls to a vLLM server are than one call per answer.

python -m benchmarks.serving --python .venv-vllm/bin/python [--episodes 32] [--repeats 3]

Starts a server of the embedded model and plays coop_compete with four agents that it answers for.
Both ways play the same number of games in the same run, in turns; the median of the repeats counts.
"""

from __future__ import annotations

import functools
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import records
from benchmarks.records import Check, Repeats, in_turns, ratios
from srl_agents.llm import tiny
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.sampling import Sampling
from srl_agents.llm.text_policy import TextPolicy
from srl_agents.rollout import play_many
from srl_envs import registry
from srl_extensions.vllm import backend as backends
from srl_extensions.vllm.backend import VLLMBackend
from srl_extensions.vllm.command import ServerSpec
from srl_extensions.vllm.fleet import Fleet
from srl_extensions.vllm.server import free_port

AGENTS, TURNS, CALLS = 4, 8, 64
GROUPED, SINGLE = "grouped calls", "one call per answer"
LEAST = 3.0  # times as many answers a second
START = 600.0  # seconds until the server answers
POSITIONS = 2048


def game() -> Any:
    """Four agents that write, eight turns."""
    return registry.make("coop_compete_v0", num_agents=AGENTS, max_cycles=TURNS)


def measure(url: str, folder: Path, episodes: int, repeats: int) -> dict[str, Repeats]:
    """Answers a second of both ways, from the server of the model in `folder`."""
    fleet = Fleet.attached({"base": [url]}, concurrency=CALLS, deadline=START)
    tokenizer = HuggingFaceBackend.load(folder, device="cpu").tokenizer
    view = game().unwrapped.text_view

    def rollout(prompts: int, repeat: int) -> float:
        backends.PROMPTS_PER_CALL = prompts
        backend = VLLMBackend(fleet.routers["base"], tokenizer, base="base")
        policy = TextPolicy(backend, view, sampling=Sampling(max_new_tokens=4))
        start = time.perf_counter()
        seats = dict.fromkeys(game().possible_agents, policy)
        played = play_many(game, seats, range(repeat * episodes, (repeat + 1) * episodes))
        seconds = time.perf_counter() - start
        if failed := [episode.failure for episode in played if episode.failure]:
            raise SystemExit(failed[0])
        return episodes * TURNS * AGENTS / seconds

    ways = {GROUPED: backends.PROMPTS_PER_CALL, SINGLE: 1}
    sides: dict[str, Callable[[int], float]] = {
        way: functools.partial(rollout, prompts) for way, prompts in ways.items()
    }
    try:
        return in_turns(sides, repeats, warm_ups=1)
    finally:
        fleet.close()


def tables(speeds: dict[str, Repeats]) -> tuple[str, list[Check]]:
    """Return the result as Markdown, and its checks."""
    faster = ratios(speeds[GROUPED], speeds[SINGLE])
    lines = [(way, f"{own:.0f}") for way, own in speeds.items()]
    claim = f"grouped calls answer at least {LEAST:g} times as fast"
    checks = [Check(claim, faster.middle >= LEAST, f"{faster:.1f} times")]
    table = records.table(("way", "answers per second"), lines)
    return table, checks


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and record."""
    parser = records.parser(__doc__)
    parser.add_argument(
        "--python", default=sys.executable, help="interpreter of the environment that has vLLM"
    )
    parser.add_argument("--episodes", type=int, default=32, help="per rollout")
    parser.add_argument("--repeats", type=int, default=3, help="measured rollouts per way")
    options = parser.parse_args(arguments)
    folder = tiny.folder(game, size=tiny.TinySize(heads=2, key_value_heads=1))
    with tempfile.TemporaryDirectory() as logs:
        spec = ServerSpec(
            model=str(folder),
            served_name="base",
            port=free_port("127.0.0.1"),
            log_folder=Path(logs),
            dtype="float32",
            extra_arguments=("--max-model-len", str(POSITIONS)),
            python=options.python,
        )
        with Fleet.managed([spec], concurrency=CALLS, deadline=START):
            speeds = measure(spec.url, folder, options.episodes, options.repeats)
    markdown, checks = tables(speeds)
    head = f"{options.episodes} episodes x {TURNS} turns x {AGENTS} agents, one server on a CPU"
    result = {"answers_per_second": speeds}
    return records.keep("serving", result, f"{head}\n\n{markdown}", options, checks)


if __name__ == "__main__":
    raise SystemExit(main())
