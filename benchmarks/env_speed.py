"""Speed of the environments and of their peers: agent-steps per second of CPU time.

python -m benchmarks.env_speed [--compared] [--share 1] [--repeats 3] [--markdown FILE]

One agent-step is one action of one agent. Actions are drawn before the clock starts; stepping and
resetting are timed. The repeats of all rows are interleaved, and the best repeat is judged.
Installed peers are measured: pip install textarena open-spiel minigrid pygame-ce (rps_v2 needs it).
"""

from __future__ import annotations

import importlib.util
import itertools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium
import numpy as np

from benchmarks import records
from benchmarks.records import Repeats, in_turns
from examples.custom_environment import RockPaperScissors
from srl_envs import coop_compete_v0, make, vector
from srl_envs.text import TO_MOVE, TextEnv

BATCH = 4096
DIFFERENT = 64  # drawn actions, which are repeated
MANY = f"batch of {BATCH}"
SINGLE, BATCHED = "coop_compete, 2 players", f"coop_compete, 2 players, {MANY}"
TEAMS = "team_battle, 4 against 4"
RPS, RPS_AEC = "PettingZoo rps_v2, parallel", "PettingZoo rps_v2, AEC"
KUHN, OPENSPIEL = "openspiel:kuhn_poker", "OpenSpiel kuhn_poker, rl_environment"
GRID = "MiniGrid-SimpleCrossingS9N1"
EXAMPLE = "[Offer: 3 Sheep, 2 Ore -> 5 Brick, 2 Sheep]"  # in TextArena's rules
TEXTARENA = {
    "IteratedRockPaperScissors-v0": ("[rock]", "[paper]", "[scissors]"),
    "KuhnPoker-v0": ("[check]", "[bet]", "[fold]", "[call]"),
    "IteratedPrisonersDilemma-v0": ("[Cooperate]", "[Defect]"),
    "SimpleNegotiation-v0": (
        *9 * ("[Offer: 1 Wheat -> 1 Wood]", "[Offer: 2 Ore -> 9 Wood]", EXAMPLE),
        *("[Accept]", "[Deny]", "[Deny]"),
    ),
    "SimpleNegotiation-v0, one in three refuses": (
        *("[Offer: 1 Wheat -> 1 Wood]", "[Offer: 2 Ore -> 9 Wood]", "[Deny]"),
    ),
}
"""Answers by game of TextArena. In the first negotiation, 27 of 30 are offers, as in ours."""
JAXMARL = {  # name -> size of the batch, steps per compiled call, calls per repeat
    "JaxMARL switch_riddle, batch of 64": (64, DIFFERENT, 250),
    "JaxMARL switch_riddle, batch of 64, step by step": (64, 1, 1500),
    f"JaxMARL switch_riddle, {MANY}": (BATCH, DIFFERENT, 6),
    f"JaxMARL switch_riddle, {MANY}, step by step": (BATCH, 1, 500),
}

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
    peer: str | None = None
    """Name of the row that this one is compared with."""
    least: int | None = None
    """Least speed, in times of the peer's."""
    needs: str | None = None
    """Required package, by its name for Python."""

    def missing(self) -> bool:
        return self.needs is not None and importlib.util.find_spec(self.needs) is None


def repeated(
    step: Callable[[Any], object], drawn: Sequence[Any], each: int = 1, env: Any = None
) -> Play:
    """Return a function that calls `step`, which is `each` agent-steps, with the drawn actions.

    It also resets `env` when its episode is over.
    """

    def play(rounds: int) -> tuple[int, float]:
        cycle = itertools.cycle(drawn)
        start = time.process_time()
        for _ in range(rounds):
            step(next(cycle))
            if env is not None and not env.agents:
                env.reset()
        return rounds * each, time.process_time() - start

    return play


def numbers(count: Any, shape: tuple[int, ...] = ()) -> Any:
    """Draw DIFFERENT arrays of numbers below `count`."""
    return np.random.default_rng(0).integers(count, size=(DIFFERENT, *shape))


def single(
    make_env: Callable[..., Any], *arguments: Any, text: bool = False, **options: Any
) -> Play:
    """Play an environment; with `text`, a TextEnv reads the actions as text.

    Actions of agents that are not to move are not counted.
    """
    env = make_env(*arguments, **options)
    env = TextEnv(env) if text else env
    _, infos = env.reset(seed=0)
    moving = sum(info.get(TO_MOVE, True) for info in infos.values())
    actions = {
        agent: env.unwrapped.text_view.answers(agent) if text else range(env.action_space(agent).n)
        for agent in env.agents
    }
    drawn = [
        {agent: own[number] for (agent, own), number in zip(actions.items(), row, strict=True)}
        for row in numbers([len(own) for own in actions.values()], (len(actions),)).tolist()
    ]
    return repeated(env.step, drawn, moving, env)


def in_turn(make_env: Callable[..., Any], **options: Any) -> Play:
    """Play an AEC environment with `last` and `step` of one agent at a time."""
    env = make_env(**options)
    env.reset(seed=0)

    def step(action: int) -> None:
        env.step(action)
        while env.agents and any(env.last()[2:4]):  # terminated or truncated
            env.step(None)

    return repeated(step, numbers(env.action_space(env.agents[0]).n).tolist(), env=env)


def rps(play: Callable[..., Play], form: str) -> Play:
    """Play a form of PettingZoo's rock, paper, scissors."""
    from pettingzoo.classic import rps_v2

    return play(getattr(rps_v2, form))


def batched(name: str, size: int | None = None, **parameters: Any) -> Play:
    """Play a batch of `size` games (None: BATCH); with `max_cycles`, restarts are not counted."""
    games = vector.make(name, size or BATCH, **parameters)
    games.reset(seed=0)
    shape, count = (games.num_envs, games.num_agents), int(games.single_action_space.n)
    steps, cycles = games.num_envs * games.num_agents, parameters.get("max_cycles")
    counted = steps * cycles // (cycles + 1) if cycles else steps
    return repeated(games.step, numbers(count, shape), counted)


def compiled(size: int, scanned: int) -> Play:
    """Play a batch of JaxMARL's smallest game, with `scanned` steps per compiled call."""
    import jax
    import jaxmarl

    env, key = jaxmarl.make("switch_riddle", num_agents=3), jax.random.key(0)
    now = key, jax.vmap(env.reset)(jax.random.split(key, size))[1]
    drawn = jax.numpy.array(numbers(3, (3, size))).reshape(-1, scanned, 3, size)

    def step(now: Any, actions: Any) -> Any:
        keys = jax.random.split(now[0], size + 1)
        chosen = dict(zip(env.agents, actions, strict=True))
        seen, state, *results = jax.vmap(env.step)(keys[1:], now[1], chosen)
        return (keys[0], state), (seen, results)

    run = jax.jit(lambda now, actions: jax.lax.scan(step, now, actions))

    def play(actions: Any) -> None:
        nonlocal now
        now, _ = jax.block_until_ready(run(now, actions))

    play(drawn[0])  # compiles
    return repeated(play, list(drawn), scanned * size * 3)


def minigrid() -> Play:
    """Play a maze of MiniGrid with 9x9 cells; every episode has another one."""
    env: Any = gymnasium.wrappers.Autoreset(gymnasium.make(f"minigrid:{GRID}-v0").unwrapped)
    env.reset(seed=0)
    return repeated(env.step, numbers(3).tolist())


def openspiel() -> Play:
    """Play Kuhn poker in OpenSpiel's environment, where both actions are always legal."""
    from open_spiel.python.rl_environment import Environment

    env = Environment("kuhn_poker")
    env.reset()

    def step(action: int) -> None:
        if env.step([action]).last():
            env.reset()

    return repeated(step, numbers(2).tolist())


def textarena(name: str) -> Play:
    """Play a game of TextArena, in which every answer is a step.

    Each episode has a new environment: one that is reset keeps the text of all former episodes.
    An episode of Kuhn poker is one hand, of TextArena's three.
    """
    import textarena as arena

    def begun() -> Any:
        one_hand = {"max_rounds": 1} if name == POKER else {}
        env = arena.make(name.partition(",")[0], **one_hand)
        env.reset(num_players=2)
        return env

    env = begun()
    answers = itertools.cycle(np.random.default_rng(0).choice(TEXTARENA[name], DIFFERENT).tolist())

    def step(answer: str) -> None:
        nonlocal env
        _, seen = env.get_observation()
        legal = seen.rpartition("available actions are:")[2] if "Kuhn" in name else answer
        while answer not in legal:
            answer = next(answers)
        done, _ = env.step(action=answer)
        if done:
            env.close()
            env = begun()

    return repeated(step, [next(answers) for _ in range(DIFFERENT)])


TWO: dict[str, Any] = {"num_agents": 2}
BATTLE: dict[str, Any] = {"team_size": 4, "warmup_episodes": 0}  # a warm-up is less work
SIX = partial(batched, "coop_compete_v0", num_agents=3, max_cycles=6)  # steps of switch_riddle
LEVEL: dict[str, Any] = {"level_seed": 0, "split": "any"}
in_text = partial(partial, single, text=True)
SHORT = in_text(make, "coop_compete_v0", **TWO, max_cycles=10)
TRADE = in_text(make, "social_negotiation_v0", **TWO, offers="simultaneous")
ROCKS, POKER, DILEMMA, NEGOTIATION, _ = TEXTARENA
RIDDLE, _, RIDDLES, _ = JAXMARL
ROWS = (
    Row(SINGLE, partial(single, make, "coop_compete_v0", **TWO), 50_000, 200e3, RPS, 10),
    Row(TEAMS, partial(single, make, "team_battle_v0", **BATTLE), 20_000, 250e3),
    Row("maze 9x9, another every episode", partial(single, make, "maze_v0"), 50_000, 100e3, GRID),
    Row("maze 9x9, always the same", partial(single, make, "maze_v0", **LEVEL), 50_000, 100e3),
    Row("social trading, 6 traders", partial(single, make, "social_trading_v0"), 10_000, 60e3),
    Row(BATCHED, partial(batched, "coop_compete_v0", **TWO), 3000, 30e6, RPS, 30),
    Row(f"{TEAMS}, {MANY}", partial(batched, "team_battle_v0", **BATTLE), 200, 8e6),
    Row(f"maze 9x9, each a new one, {MANY}", partial(batched, "maze_v0"), 162, 250e3),
    Row(f"maze 9x9, one of 500, {MANY}", partial(batched, "maze_v0", num_levels=500), 600, 3e6),
    Row(f"maze 9x9, always the same, {MANY}", partial(batched, "maze_v0", **LEVEL), 600, 3e6),
    Row(f"{SINGLE}, AEC", partial(in_turn, coop_compete_v0.env, **TWO), 15_000, peer=RPS_AEC),
    Row(KUHN, partial(single, make, KUHN), 10_000, peer=OPENSPIEL, needs="pyspiel"),
    Row("rock, paper, scissors in text", in_text(RockPaperScissors, max_cycles=9), 20_000,
        peer=ROCKS),
    Row(f"{KUHN} in text", in_text(make, KUHN), 10_000, peer=POKER, needs="pyspiel"),
    Row(f"{SINGLE}, in text", SHORT, 20_000, peer=DILEMMA),
    Row("negotiation, both at once, in text", TRADE, 20_000, peer=NEGOTIATION),
    Row("coop_compete, 3 players, batch of 64", partial(SIX, 64), 10_000, peer=RIDDLE),
    Row(f"coop_compete, 3 players, {MANY}", SIX, 1200, peer=RIDDLES),
    Row(RPS, partial(rps, single, "parallel_env"), 3000, needs="pygame"),
    Row(RPS_AEC, partial(rps, in_turn, "env"), 15_000, needs="pygame"),
    Row(OPENSPIEL, openspiel, 20_000, needs="pyspiel"),
    Row(GRID, minigrid, 4000, needs="minigrid"),
    *(Row(name, partial(textarena, name), 20_000, needs="textarena") for name in TEXTARENA),
    *(Row(name, partial(compiled, *sizes), calls, needs="jaxmarl")
      for name, (*sizes, calls) in JAXMARL.items()),
)  # fmt: skip


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
        if not row.missing()
    }
    return in_turns(sides, repeats)


def tables(rows: Sequence[Row], rates: Mapping[str, Repeats]) -> tuple[str, list[records.Check]]:
    """Return the tables of measured rates as Markdown, and the checks of the targets."""
    best = {name: max(values) for name, values in rates.items()}
    lines, against, checks = [], [], []
    for row in rows:
        if row.name not in best:
            lines.append((row.name, "", "not installed", "", "", ""))
            continue
        own, target, share = shown(best[row.name]), "", ""
        if row.target is not None:
            target, share = shown(row.target), f"{best[row.name] / row.target:.2f}"
            claim = f"{row.name}: at least {target}"
            held = best[row.name] >= row.target
            checks.append(records.Check(claim, held, f"{own} a second"))
        least, median = (shown(pick(rates[row.name])) for pick in (min, statistics.median))
        lines.append((row.name, target, own, median, least, share))
    headers = ("agent-steps per CPU-second", "target", "best", "median", "least", "best / target")
    for row in (row for row in rows if row.peer is not None):
        times = "not installed"
        if best.keys() >= {row.name, row.peer}:
            quotient = best[row.name] / best[row.peer]
            times = f"{quotient:.0f}" if quotient >= 100.0 else f"{quotient:.3g}"
            if row.least is not None:
                claim = f"{row.name}: at least {row.least} times as fast as {row.peer}"
                checks.append(records.Check(claim, quotient >= row.least, f"{times} times"))
        against.append((row.name, row.peer, row.least or "", times))
    ratios = records.table(("", "against", "at least", "times as fast"), against)
    return f"{records.table(headers, lines)}\n\n{ratios}", checks


def shown(rate: float) -> str:
    """Return a rate as text such as '41.2M' or '412k'."""
    return f"{rate / 1e6:.1f}M" if rate >= 1e6 else f"{rate / 1e3:.0f}k"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and record."""
    parser = records.parser(__doc__)
    parser.add_argument("--compared", action="store_true", help="only games with an installed peer")
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each row")
    parser.add_argument("--share", type=float, default=1.0, help="share of the steps of a repeat")
    options = parser.parse_args(arguments)
    peers = {*TEXTARENA, *JAXMARL, *(row.peer for row in ROWS if row.peer)}
    peers -= {row.name for row in ROWS if row.missing()}
    rows = [row for row in ROWS if not options.compared or {row.name, row.peer} & peers]
    markdown, checks = tables(rows, measure(rows, options.share, options.repeats))
    records.keep(markdown, options, checks)


if __name__ == "__main__":
    main()
