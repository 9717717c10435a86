"""Algorithms and credit schemes at equal answer tokens and equal optimizer steps."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch

from benchmarks import games
from benchmarks.claim import Request, Result, Settings
from benchmarks.games import ColourGame
from benchmarks.records import Kept
from benchmarks.runs import HeldOut, assembled, rounds_of
from srl_agents.episode import Episode

PLAIN, TABLE = "GRPO", "table"
"""Method that the others are compared with, and the control that is no language model."""
UNSEEN = 2**31  # Training draws the seeds of its games below this one.


def matched_algorithms(request: Request) -> Result:
    """Train every method in every cell of every game; one row per run, compared with GRPO's.

    A cell is a number of passes, a number of minibatches and an entropy bonus. Learning rates are
    tuned on other seeds. Every run is appended to `runs.jsonl` in the request's folder, from which
    a later call reads the run.
    """
    options, kept = request.claim.options, Kept(request.folder / "runs.jsonl")

    def measured(game: str, cell: str, method: str, seed: int, rate: float) -> dict[str, Any]:
        def train() -> dict[str, Any]:
            settings = cell_settings(request, game, cell, method)
            settings |= {"seed": seed, "algorithm.learning_rate": rate}
            exam = colour_exam(options["games"][game]["env"], request.games)
            began = time.process_time()
            row = (train_table if method == TABLE else train_model)(exam, settings)
            return {**row, "cpu_seconds": time.process_time() - began}

        found: dict[str, Any] = kept((game, cell, method, seed, rate), train)
        return found

    rates = {}
    for game, own in options["games"].items():
        for cell in own["cells"]:
            for method in request.claim.methods:
                found = {
                    rate: sum(
                        measured(game, cell, method, seed, rate)["score"]
                        for seed in options["tuning_seeds"]
                    )
                    for rate in options["rates"].get(method, options["rates"]["all"])
                }
                rates[game, cell, method] = max(found, key=lambda rate: found[rate])
    rows = []
    for seed in request.seeds:
        for (game, cell, method), rate in rates.items():
            run = measured(game, cell, method, seed, rate)
            plain = measured(game, cell, PLAIN, seed, rates[game, cell, PLAIN])
            rows.append({
                "game": game, "cell": cell, "method": method, "seed": seed, "rate": rate,
                "model": method != TABLE, "score": run["score"],
                "gap": run["score"] - plain["score"],
                "more_steps": run["steps"] - plain["steps"],
                "more_tokens": run["tokens"] and run["tokens"] - plain["tokens"],
            })  # fmt: skip
    spent = sum(row["cpu_seconds"] for row in kept.results.values())
    return Result(rows, facts={"minutes": spent / 60})


def cell_settings(request: Request, game: str, cell: str, method: str) -> dict[str, Any]:
    """Return the settings of a method in a cell; those of the cell replace those of a preset."""
    options = request.claim.options
    own, place = request.claim.methods[method], options["cells"][cell]
    section = "algorithm" if own.get("preset") in ("ippo", "mappo") else "algorithm.trl"
    return {
        **request.claim.settings, **options["games"][game]["settings"], **own,
        "algorithm.num_iterations": place["passes"],
        "algorithm.minibatches": place["minibatches"],
        f"{section}.entropy_coef": place["bonus"],
        **request.overrides,
    }  # fmt: skip


def colour_exam(env: str, count: int) -> HeldOut:
    """Return an evaluation on `count` episodes of `benchmarks.games.ENV` with unseen seeds.

    Its score is the mean over agents and episodes of the share of the best return.
    """
    make: type[ColourGame] = getattr(games, env)

    def score(episodes: Sequence[Episode]) -> dict[str, Any]:
        most = [stake * make.turns for stake in make.stakes]
        shares = [
            earned / best
            for episode in episodes
            for earned, best in zip(episode.returns().values(), most, strict=True)
        ]
        return {"score": sum(shares) / len(shares)}

    return HeldOut(make, range(UNSEEN, UNSEEN + count), score)


def train_model(exam: HeldOut, settings: Settings) -> dict[str, Any]:
    """Train a language model; return "score" (of `exam`), "steps" (of the optimizer), "tokens"."""
    with assembled(settings, exam.make) as run:
        tokens = sum(answer_tokens(result.episodes) for result in rounds_of(run))
        steps = run.learners["model_0"].state()["counters"]["global_step"]
        return {**exam(run), "steps": steps, "tokens": tokens}


def answer_tokens(episodes: Sequence[Episode]) -> int:
    """Return the number of tokens that models wrote in episodes."""
    steps = [step for episode in episodes for turn in episode.turns for step in turn]
    return sum(len(s.decision.tokens.completion_ids) for s in steps if s.decision.tokens)


def train_table(exam: HeldOut, settings: Settings) -> dict[str, Any]:
    """Train logits (agent, turn, colour) with GRPO's loss; return as `train_model`, tokens None.

    Episodes, steps and the entropy bonus are those of the settings. Gradients are not clipped.
    """
    env = exam.make()
    logits = torch.zeros(len(env.stakes), env.turns, len(games.COLOURS), requires_grad=True)
    optimizer = torch.optim.AdamW([logits], settings["algorithm.learning_rate"], weight_decay=0.0)
    random = torch.Generator().manual_seed(settings["seed"])
    size, groups = settings["rollout.group_size"], settings["rollout.groups_per_round"]
    agents = torch.arange(len(env.stakes)).repeat(size * groups)
    for _ in range(settings["rounds"]):
        chosen_EAT, returns_EA = _played(env, logits, size * groups, random)
        if settings["mode.name"] == "cooperative":
            returns_EA[:] = returns_EA.mean(1, keepdim=True)
        deviation, mean = torch.std_mean(returns_EA.view(groups, size, -1), 1, keepdim=True)
        gains = ((returns_EA.view(groups, size, -1) - mean) / (deviation + 1e-4)).reshape(-1, 1)
        chosen = chosen_EAT.flatten(0, 1)[..., None]
        before = logits.detach().log_softmax(-1)[agents].gather(-1, chosen)[..., 0]
        for _ in range(settings["algorithm.num_iterations"]):
            order = torch.randperm(len(gains), generator=random)
            for part in order.chunk(settings["algorithm.minibatches"]):
                now = logits.log_softmax(-1)[agents[part]]
                ratio = (now.gather(-1, chosen[part])[..., 0] - before[part]).exp()
                clipped = torch.minimum(ratio * gains[part], ratio.clamp(0.8, 1.2) * gains[part])
                bonus = settings["algorithm.trl.entropy_coef"] * (now.exp() * now).sum(-1)
                optimizer.zero_grad()
                (bonus - clipped).mean().backward()
                optimizer.step()
    _, returns_EA = _played(env, logits, len(exam.seeds), random)
    best, steps = torch.tensor(env.stakes) * env.turns, int(optimizer.state[logits]["step"])
    return {"score": float((returns_EA / best).mean()), "steps": steps, "tokens": None}


def _played(env: Any, logits: Any, count: int, random: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the colours (episode, agent, turn) and returns (episode, agent) of episodes."""
    chances = logits.detach().softmax(-1).flatten(0, 1)
    drawn = torch.multinomial(chances, count, replacement=True, generator=random)
    chosen_EAT = drawn.T.reshape(count, *logits.shape[:2])
    returns_EA = torch.zeros(count, len(env.stakes))
    for chosen_AT, returns_A in zip(chosen_EAT, returns_EA, strict=True):
        env.reset(seed=0)
        for picks in chosen_AT.T.tolist():
            rewards = env.step(dict(zip(env.possible_agents, picks, strict=True)))[1]
            returns_A += torch.tensor(list(rewards.values()))
    return chosen_EAT, returns_EA
