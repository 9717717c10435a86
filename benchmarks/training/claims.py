"""The table of claims: name -> what is claimed, and where it is written down.

Places are names, not imports: what measures the memory of processes may not import torch, see
`costs.processes`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping

from benchmarks.training.claim import Claim

CLAIMS: Mapping[str, tuple[str, str]] = {
    "demo_seeds": (
        "four models learn to cooperate; adapters learn as much as full models",
        "costs.claims:DEMO_SEEDS",
    ),
    "team_battle": ("the mode decides where team_battle ends", "variants:TEAM_BATTLE"),
    "adapter_memory": (
        "eight adapters take little more memory than one",
        "costs.claims:ADAPTER_MEMORY",
    ),
    "round_cost": ("a round costs about what TRL alone costs", "costs.round_cost:ROUND_COST"),
    "vocabulary": (
        "tokens that the environment wrote cost no logits",
        "costs.claims:VOCABULARY",
    ),
    "accelerator": (
        "real sizes of models play and learn on an accelerator",
        "costs.accelerator:ACCELERATOR",
    ),
    "ray": ("actors on Ray play and learn at the same time", "costs.ray_rounds:RAY"),
    "scaling": ("eight models cost at most eight times one", "costs.claims:SCALING"),
    "maze": ("a tiny model finds its way in mazes it has never seen", "unseen.maze:MAZE"),
    "trading": ("tiny models learn to trade, and goods are conserved", "unseen.trading:TRADING"),
    "arithmetic": ("a tiny model learns one-digit arithmetic", "unseen.tasks:ARITHMETIC"),
    "tools": ("a tiny model learns to use two tools", "unseen.tasks:TOOLS"),
    "several_tasks": ("one model learns three tasks in one run", "unseen.tasks:SEVERAL_TASKS"),
    "algorithms_coop_compete": (
        "GRPO, PPO, RLOO and SFT before GRPO learn coop_compete",
        "variants:ALGORITHMS_COOP_COMPETE",
    ),
    "algorithms_team_battle": ("the same in team_battle", "variants:ALGORITHMS_TEAM_BATTLE"),
    "algorithms_maze": ("the same in mazes", "variants:ALGORITHMS_MAZE"),
    "offline": ("SFT and DPO raise the return above their data's", "variants:OFFLINE"),
    "credit": ("turn-level credit finds the act that matters sooner", "credit.claims:CREDIT"),
    "named_algorithms": (
        "eleven algorithms on three games that tell them apart, at equal answer tokens",
        "credit.named_algorithms:NAMED_ALGORITHMS",
    ),
    "served": (
        "models learn through a vLLM server as they do in the trainer",
        "costs.served:SERVED",
    ),
    "asynchronous": (
        "play that waits for nobody, and learning beside it, with slow answers",
        "costs.asynchronous:ASYNCHRONOUS",
    ),
    "federated_communication": (
        "models that meet every tenth round earn what those earn that meet every round",
        "federated.claims:FEDERATED_COMMUNICATION",
    ),
    "learner_repairs": (
        "every agent is trained alike, and equal models and starts are treated alike",
        "repairs.claims:LEARNER_REPAIRS",
    ),
    "zero_sum": (
        "beside a moving reference self-play comes nearer to an equilibrium",
        "zero_sum.claims:ZERO_SUM",
    ),
    "our_method_llm": (
        "what notes on opponents and credit by opponent are worth",
        "credit.our_method_llm:OUR_METHOD_LLM",
    ),
}


def load(name: str) -> Claim:
    """The claim of that name."""
    _, place = CLAIMS[name]
    claim: Claim = pkgutil.resolve_name(f"benchmarks.training.{place}")
    return claim
