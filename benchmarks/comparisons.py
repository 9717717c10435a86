"""Algorithms and credit schemes at equal answer tokens and equal optimizer steps."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks import games
from benchmarks.claim import Request, Result, Row, Settings
from benchmarks.games import ColourGame
from benchmarks.records import Interval, mean_interval
from benchmarks.runs import HeldOut, assembled, rounds_of
from srl_agents.episode import Episode

PLAIN = "GRPO"
"""Method that the others are compared with."""
TABLE = "table"
"""Control: a table of logits by agent and turn, trained with the advantages and loss of GRPO."""
UNSEEN = 2**31  # Training draws the seeds of its games below this one.
Measured = Callable[[str, str, str, int, float], dict[str, Any]]
"""(game, cell, method, seed, learning rate) -> row of the run."""


def matched_algorithms(request: Request) -> Result:
    """Train every method in every cell of every game, at a learning rate tuned on other seeds.

    A cell is a number of passes, a number of minibatches and an entropy bonus. Every run is
    appended to `runs.jsonl` in the request's folder, and is read from there the next time.

    The rows of the result have the differences within a cell in steps and tokens ("part" is
    "cell"), and the differences in score from GRPO on the same seeds ("gap").
    """
    options, file = request.claim.options, request.folder / "runs.jsonl"
    measured = kept(file, request)
    names = list(request.claim.methods)
    cells = [(game, cell) for game, own in options["games"].items() for cell in own["cells"]]
    rates = {}
    for game, cell in cells:
        source = options["cells"][cell].get("rate_of", cell)
        for name in names:
            grid = options["rates"].get(name, options["rates"]["all"])

            def score(seed: int, rate: float, place: Any = (game, source, name)) -> float:
                return float(measured(*place, seed, rate)["score"])

            rates[game, cell, name] = tuned(grid, options["tuning_seeds"], score)
    runs = [measured(*place, seed, rate) for seed in request.seeds for place, rate in rates.items()]
    scores: dict[Any, list[float]] = {place: [] for place in rates}
    for run in runs:
        scores[run["game"], run["cell"], run["method"]].append(run["score"])
    gaps = {
        (game, cell, name): [
            score - plain for score, plain in zip(own, scores[game, cell, PLAIN], strict=True)
        ]
        for (game, cell, name), own in scores.items()
        if name != PLAIN
    }
    rows: list[Row] = [
        {"part": "gap", "game": game, "cell": cell, "method": name, "gap": _interval(own)}
        for (game, cell, name), own in gaps.items()
    ]
    for game, cell in cells:
        own = [run for run in runs if (run["game"], run["cell"]) == (game, cell)]
        apart = {
            key: max(values) - min(values)
            for key in ("steps", "tokens")
            for values in [[run[key] for run in own if run[key] is not None]]
        }
        rows.append({"part": "cell", "game": game, "cell": cell, **apart})
    parts: dict[str, Mapping[Any, Any]] = {
        "scores": {place: _interval(own) for place, own in scores.items()},
        "gaps": {place: _interval(own) for place, own in gaps.items()},
        "rates": rates,
    }
    references = [_line(part, name, values) for part, values in parts.items() for name in names]
    spent = sum(json.loads(line)["cpu_seconds"] for line in file.read_text().splitlines())
    return Result(rows, references, {"minutes": f"{spent / 60:.0f}"})


def tuned(
    rates: Sequence[float], seeds: Sequence[int], score: Callable[[int, float], float]
) -> float:
    """Return the best learning rate: all on the first seed, then the best two on the others."""
    first, *others = seeds
    found = {rate: score(first, rate) for rate in rates}
    best = sorted(rates, key=lambda rate: -found[rate])[:2]
    totals = {rate: found[rate] + sum(score(seed, rate) for seed in others) for rate in best}
    return max(best, key=lambda rate: totals[rate])


def kept(file: Path, request: Request) -> Measured:
    """Return the measurement of a run, which appends rows to `file` and reads known runs there."""
    lines = file.read_text().splitlines() if file.exists() else []
    known = {tuple(row["run"]): row for row in map(json.loads, lines)}

    def measured(*run: Any) -> dict[str, Any]:
        if run not in known:
            game, cell, method, seed, rate = run
            own = request.claim.options["games"][game]
            settings = cell_settings(request, game, cell, method)
            settings |= {"seed": seed, "algorithm.learning_rate": rate}
            began = time.process_time()
            train = train_table if method == TABLE else train_model
            row = train(colour_exam(own["env"], request.games), settings)
            row = {"run": run, **row, "cpu_seconds": time.process_time() - began}
            with file.open("a") as stream:
                stream.write(json.dumps(row) + "\n")
            known[run] = row
        names = dict(zip(("game", "cell", "method", "seed", "rate"), run, strict=True))
        return {**known[run], **names}

    return measured


def cell_settings(request: Request, game: str, cell: str, method: str) -> dict[str, Any]:
    """Return the settings of a method in a cell; those of the cell replace those of a preset."""
    options = request.claim.options
    own, place = request.claim.methods[method], options["cells"][cell]
    ppo = own.get("preset") == "mappo"
    return {
        **request.claim.settings, **options["games"][game]["settings"], **own,
        "algorithm.num_iterations": place["passes"],
        "algorithm.minibatches": place["minibatches"],
        f"algorithm.{'' if ppo else 'trl.'}entropy_coef": place["bonus"],
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
    return sum(
        len(s.decision.tokens.completion_ids) for s in steps if s.decision.tokens is not None
    )


def train_table(exam: HeldOut, settings: Settings) -> dict[str, Any]:
    """Train a table of logits (agent, turn, colour) on as many episodes as `train_model`.

    Advantages, clipped loss, passes, minibatches and entropy bonus are those of GRPO, without the
    clipping of gradients. Returns as `train_model`, with "tokens" None.
    """
    env: ColourGame = exam.make()
    logits = torch.zeros(len(env.stakes), env.turns, env.action_space(env.possible_agents[0]).n)
    logits.requires_grad_()
    optimizer = torch.optim.AdamW([logits], settings["algorithm.learning_rate"], weight_decay=0.0)
    random = torch.Generator().manual_seed(settings["seed"])
    size, groups = settings["rollout.group_size"], settings["rollout.groups_per_round"]
    steps = 0
    for _ in range(settings["rounds"]):
        chosen_EAT, returns_EA = _played(env, logits, size * groups, random)
        if settings["mode.name"] == "cooperative":
            returns_EA = returns_EA.mean(1, keepdim=True).expand_as(returns_EA)
        grouped = returns_EA.view(groups, size, -1)
        centered = grouped - grouped.mean(1, keepdim=True)
        gains = (centered / (grouped.std(1, keepdim=True) + 1e-4)).flatten()
        agents = torch.arange(len(env.stakes)).repeat(size * groups)
        chosen = chosen_EAT.flatten(0, 1)[..., None]
        before = logits.detach().log_softmax(-1)[agents].gather(-1, chosen)[..., 0]
        for _ in range(settings["algorithm.num_iterations"]):
            order = torch.randperm(len(gains), generator=random)
            for part in order.chunk(settings["algorithm.minibatches"]):
                now = logits.log_softmax(-1)[agents[part]]
                ratio = (now.gather(-1, chosen[part])[..., 0] - before[part]).exp()
                gain = gains[part, None]
                surrogate = torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
                entropy = -(now.exp() * now).sum(-1).mean()
                loss = -surrogate - settings["algorithm.trl.entropy_coef"] * entropy
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                steps += 1
    _, returns_EA = _played(env, logits, len(exam.seeds), random)
    best = torch.tensor(env.stakes) * env.turns
    return {"score": float((returns_EA / best).mean()), "steps": steps, "tokens": None}


def _played(
    env: ColourGame, logits: torch.Tensor, count: int, random: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the colours (episode, agent, turn) and returns (episode, agent) of episodes."""
    chance = logits.detach().softmax(-1).flatten(0, 1)
    drawn = torch.multinomial(chance, count, replacement=True, generator=random)
    chosen_EAT = drawn.T.reshape(count, *logits.shape[:2])
    returns = []
    for chosen_AT in chosen_EAT:
        env.reset(seed=0)
        paid = [
            list(env.step(dict(zip(env.possible_agents, colours, strict=True)))[1].values())
            for colours in chosen_AT.T.tolist()
        ]
        returns.append([sum(own) for own in zip(*paid, strict=True)])
    return chosen_EAT, torch.tensor(returns, dtype=torch.float32)


def _interval(values: Sequence[float]) -> Interval:
    return Interval(*mean_interval(values))


def _line(part: str, name: str, values: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a method's line of a table, with the values of its cells by game."""
    line: dict[str, Any] = {"part": part, "method": name}
    for (game, cell, method), value in values.items():
        if method == name:
            line.setdefault(game, {})[cell] = value
    return line
