"""Check games of OpenSpiel and TextArena with PettingZoo's official tests.

`python -m srl_extensions.bridges.check_games openspiel` checks all games of OpenSpiel, and
`... textarena KuhnPoker-v0 TicTacToe-v0` two games of TextArena.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from contextlib import redirect_stdout
from functools import partial
from io import StringIO

from pettingzoo.test import parallel_api_test, parallel_seed_test

from srl_envs import make
from srl_envs.untrusted import printable

FAULTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""Errors of tests and of faulty games."""
STEPS = 30
"""Number of steps of each test."""


def games_of(scheme: str) -> list[str]:
    """Return the names of all games of "openspiel" or "textarena", without their variants."""
    if scheme == "openspiel":
        from srl_extensions.bridges.openspiel import supported_games

        return supported_games()
    from textarena.envs.registration import ENV_REGISTRY

    return [name for name in ENV_REGISTRY if name.endswith("-v0")]


def check(name: str) -> str:
    """Return why a game fails PettingZoo's tests, or an empty text."""
    try:
        with redirect_stdout(StringIO()), warnings.catch_warnings(action="ignore"):
            parallel_api_test(make(name), num_cycles=STEPS)
            parallel_seed_test(partial(make, name), num_cycles=STEPS)
    except FAULTS as error:
        return f"{type(error).__name__}: {error}"
    return ""


def main() -> int:
    """Check the games on the command line, print one line for each, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("scheme", choices=("openspiel", "textarena"))
    parser.add_argument("games", nargs="*", help="names of games (default: all)")
    args = parser.parse_args()
    games = args.games or games_of(args.scheme)
    passed = 0
    for game in games:
        failure = check(f"{args.scheme}:{game}")
        passed += not failure
        print(f"{game:32s} {printable(failure, multiline=False)[:120] or 'passed'}", flush=True)
    print(f"{passed} of {len(games)} games pass PettingZoo's parallel_api_test and seed test")
    return 0 if passed == len(games) else 1


if __name__ == "__main__":
    sys.exit(main())
