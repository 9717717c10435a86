"""Speed of the environments and of their peers: agent-steps per second of CPU time.

python -m benchmarks.env_speed [--share 1] [--repeats 3] [--markdown FILE]

One agent-step is one action of one agent. Actions are drawn before the clock starts; stepping and
resetting are timed. The repeats of all rows are interleaved, and the best repeat is judged.
Installed peers are measured: pip install textarena pygame (PettingZoo's rps_v2 imports pygame).
"""

from __future__ import annotations

import importlib.util
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks import records
from benchmarks.games import KuhnPoker
from benchmarks.records import Repeats, in_turns
from examples.custom_environment import RockPaperScissors
from srl_envs import make, vector
from srl_envs.text import TO_MOVE, TextEnv

BATCH = 4096
DIFFERENT = 64  # rounds of drawn actions, which are repeated
MANY = f"batch of {BATCH}"
SINGLE, BATCHED = "coop_compete, 2 players", f"coop_compete, 2 players, {MANY}"
TEAMS = "team_battle, 4 against 4"
RPS = "PettingZoo rps_v2, parallel"
TEXTARENA = {
    "IteratedRockPaperScissors-v0": ("[rock]", "[paper]", "[scissors]"),
    "KuhnPoker-v0": ("[check]", "[bet]", "[fold]", "[call]"),
    "IteratedPrisonersDilemma-v0": ("[Cooperate]", "[Defect]"),
    "SimpleNegotiation-v0": ("I have [Offer: 1 Wheat -> 1 Wood]", "[Deny]", "What do you want?"),
}
"""Answers by game of TextArena."""

Play = Callable[[int], tuple[int, float]]
"""Function from a number of rounds to (agent-steps, CPU seconds)."""


@dataclass(frozen=True)
class Row:
    """A measured environment."""

    name: str
    prepare: Callable[[], Play]
    rounds: int
    """Rounds of a repeat, which takes about half a second."""
    target: float | None = None
    """Agent-steps per CPU-second."""
    needs: str | None = None
    """Required package, by its name for pip and Python."""

    def missing(self) -> str | None:
        """Return the install command of a missing package, or None."""
        if self.needs is None or importlib.util.find_spec(self.needs) is not None:
            return None
        return f"not installed: pip install {self.needs}"


def single(
    make_env: Callable[..., Any], *arguments: Any, text: bool = False, **options: Any
) -> Play:
    """Make an environment, and return a function that plays it with actions drawn beforehand.

    With `text`, a TextEnv reads the actions as text. Actions of agents that are not to move are not
    counted.
    """
    env = make_env(*arguments, **options)
    env = TextEnv(env) if text else env
    _, infos = env.reset(seed=0)
    moving = sum(info.get(TO_MOVE, True) for info in infos.values())
    actions = {
        agent: env.unwrapped.text_view.answers(agent) if text else range(env.action_space(agent).n)
        for agent in env.agents
    }
    numbers = np.random.default_rng(0).integers(
        [len(own) for own in actions.values()], size=(DIFFERENT, len(actions))
    )
    drawn = [
        {agent: own[number] for (agent, own), number in zip(actions.items(), row, strict=True)}
        for row in numbers.tolist()
    ]

    def play(rounds: int) -> tuple[int, float]:
        step, cycle = env.step, itertools.cycle(drawn)
        start = time.process_time()
        for _ in range(rounds):
            step(next(cycle))
            if not env.agents:
                env.reset()
        return rounds * moving, time.process_time() - start

    return play


def rps() -> Play:
    """Return `single` of PettingZoo's rock, paper, scissors."""
    from pettingzoo.classic import rps_v2

    return single(rps_v2.parallel_env)


def batched(name: str, **parameters: Any) -> Play:
    """Return a function that plays a batch of BATCH games with actions drawn beforehand."""
    games = vector.make(name, BATCH, **parameters)
    games.reset(seed=0)
    shape, count = (BATCH, games.num_agents), int(games.single_action_space.n)
    drawn = np.random.default_rng(0).integers(count, size=(DIFFERENT, *shape))

    def play(rounds: int) -> tuple[int, float]:
        step, cycle = games.step, itertools.cycle(drawn)
        start = time.process_time()
        for _ in range(rounds):
            step(next(cycle))
        return rounds * BATCH * games.num_agents, time.process_time() - start

    return play


def textarena(name: str) -> Play:
    """Return a function that plays a game of TextArena, in which every answer is a step.

    Each episode has a new environment: one that is reset keeps the text of all former episodes.
    """
    import textarena as arena

    def begun() -> Any:
        env = arena.make(name)
        env.reset(num_players=2)
        return env

    answers, poker = np.random.default_rng(0).choice(TEXTARENA[name], DIFFERENT), "Kuhn" in name

    def play(rounds: int) -> tuple[int, float]:
        cycle = itertools.cycle(answers.tolist())
        start = time.process_time()
        env = begun()
        for _ in range(rounds):
            _, seen = env.get_observation()
            answer = next(cycle)
            legal = seen.rpartition("available actions are:")[2] if poker else answer
            while answer not in legal:
                answer = next(cycle)
            done, _ = env.step(action=answer)
            if done:
                env.close()
                env = begun()
        return rounds, time.process_time() - start

    return play


TWO: dict[str, Any] = {"num_agents": 2}
BATTLE: dict[str, Any] = {"team_size": 4, "warmup_episodes": 0}  # a warm-up is less work
LEVEL: dict[str, Any] = {"level_seed": 0, "split": "any"}
in_text = partial(partial, single, text=True)
IN_TEXT = {  # in the order of TEXTARENA
    "rock, paper, scissors in text": in_text(RockPaperScissors, max_cycles=9),
    "Kuhn poker in text": in_text(KuhnPoker),
    f"{SINGLE}, in text": in_text(make, "coop_compete_v0", **TWO, max_cycles=10),
    "negotiation, 2 agents, in text": in_text(make, "social_negotiation_v0", **TWO),
}
ROWS = (
    Row(SINGLE, partial(single, make, "coop_compete_v0", **TWO), 50_000, 200e3),
    Row(TEAMS, partial(single, make, "team_battle_v0", **BATTLE), 20_000, 250e3),
    Row("maze 9x9, another every episode", partial(single, make, "maze_v0"), 50_000, 100e3),
    Row("maze 9x9, always the same", partial(single, make, "maze_v0", **LEVEL), 50_000, 100e3),
    Row("social trading, 6 traders", partial(single, make, "social_trading_v0"), 10_000, 60e3),
    Row(BATCHED, partial(batched, "coop_compete_v0", **TWO), 3000, 30e6),
    Row(f"{TEAMS}, {MANY}", partial(batched, "team_battle_v0", **BATTLE), 200, 8e6),
    Row(f"maze 9x9, each a new one, {MANY}", partial(batched, "maze_v0"), 162, 250e3),
    Row(f"maze 9x9, one of 500, {MANY}", partial(batched, "maze_v0", num_levels=500), 600, 3e6),
    Row(f"maze 9x9, always the same, {MANY}", partial(batched, "maze_v0", **LEVEL), 600, 3e6),
    Row(RPS, rps, 3000, needs="pygame"),
    *(Row(name, prepare, 20_000) for name, prepare in IN_TEXT.items()),
    *(Row(name, partial(textarena, name), 20_000, needs="textarena") for name in TEXTARENA),
)
RATIOS: tuple[tuple[str, str, int | None], ...] = (
    (BATCHED, RPS, 30),
    (SINGLE, RPS, 10),
    *((ours, peer, None) for ours, peer in zip(IN_TEXT, TEXTARENA, strict=True)),
    (BATCHED, SINGLE, None),
)


def measure(rows: Sequence[Row], share: float, repeats: int) -> dict[str, Repeats]:
    """Measure the rows whose packages are installed; return name -> agent-steps per CPU-second.

    Each has one number per repeat. `share` scales the number of rounds.
    """

    def rate(play: Play, rounds: int, _: int) -> float:
        steps, seconds = play(rounds)
        return steps / max(seconds, 1e-9)  # the clock may not have moved

    sides = {
        row.name: partial(rate, row.prepare(), max(2, round(share * row.rounds)))
        for row in rows
        if row.missing() is None
    }
    return in_turns(sides, repeats)


def tables(rates: Mapping[str, Repeats]) -> tuple[str, list[records.Check]]:
    """Return the tables of measured rates as Markdown, and the checks of the targets."""
    best = {name: max(values) for name, values in rates.items()}
    lines, checks = [], []
    for row in ROWS:
        if row.name not in best:
            lines.append((row.name, "", row.missing(), "", ""))
            continue
        own, target, share = shown(best[row.name]), "", ""
        if row.target is not None:
            target, share = shown(row.target), f"{best[row.name] / row.target:.2f}"
            claim = f"{row.name}: at least {target}"
            held = best[row.name] >= row.target
            checks.append(records.Check(claim, held, f"{own} a second"))
        lines.append((row.name, target, own, shown(rates[row.name].middle), share))
    headers = ("agent-steps per CPU-second", "target", "best", "median", "best / target")
    against = []
    for row_name, peer, least in RATIOS:
        times = "not installed"
        if peer in best:
            quotient = best[row_name] / best[peer]
            times = f"{quotient:.0f}" if quotient >= 100.0 else f"{quotient:.3g}"
            if least is not None:
                claim = f"{row_name}: at least {least} times as fast as {peer}"
                checks.append(records.Check(claim, quotient >= least, f"{times} times"))
        against.append((row_name, peer, "" if least is None else f"{least}", times))
    ratios = records.table(("", "against", "at least", "times as fast"), against)
    return f"{records.table(headers, lines)}\n\n{ratios}", checks


def shown(rate: float) -> str:
    """Return a rate as text such as '41.2M' or '412k'."""
    return f"{rate / 1e6:.1f}M" if rate >= 1e6 else f"{rate / 1e3:.0f}k"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and record."""
    parser = records.parser(__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each row")
    parser.add_argument("--share", type=float, default=1.0, help="share of the steps of a repeat")
    options = parser.parse_args(arguments)
    rates = measure(ROWS, options.share, options.repeats)
    markdown, checks = tables(rates)
    records.keep(markdown, options, checks)


if __name__ == "__main__":
    main()
