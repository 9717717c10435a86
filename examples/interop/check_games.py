"""Check games of OpenSpiel and TextArena with PettingZoo's official tests.

    python examples/interop/check_games.py openspiel
    python examples/interop/check_games.py textarena KuhnPoker-v0 TicTacToe-v0

Without names, all games are checked. Some games of TextArena need word lists or an API key.
"""

import signal
import sys
import warnings
from contextlib import redirect_stdout
from functools import partial
from io import StringIO

from pettingzoo.test import parallel_api_test, parallel_seed_test

from srl_envs import make
from srl_envs.errors import EnvConfigError
from srl_envs.untrusted import printable

FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, OSError, RuntimeError,
          TypeError, ValueError)  # fmt: skip
SECONDS = 60  # time limit of a game


def games_of(scheme):
    """Return the names of all games of "openspiel" or "textarena", without their variants."""
    if scheme == "openspiel":
        import pyspiel

        names = [one.short_name for one in pyspiel.registered_games() if one.default_loadable]
        return [name for name in names if is_supported(name)]
    from textarena.envs.registration import ENV_REGISTRY

    return [name for name in ENV_REGISTRY if name.endswith("-v0")]


def is_supported(game):
    """Return whether a game of OpenSpiel can be an environment."""
    from srl_extensions.bridges.openspiel import load_game

    try:
        load_game(game)
    except EnvConfigError:
        return False
    return True


def out_of_time(*signal_and_frame):
    """End the check of a game."""
    raise TimeoutError(f"no result after {SECONDS} s")


def check(name):
    """Return why a game fails PettingZoo's tests, or an empty text."""
    signal.alarm(SECONDS)
    try:
        with redirect_stdout(StringIO()), warnings.catch_warnings(action="ignore"):
            parallel_api_test(make(name), num_cycles=30)
            parallel_seed_test(partial(make, name), num_cycles=30)
    except FAULTS as error:
        return f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
    return ""


if __name__ == "__main__":
    scheme, *named = sys.argv[1:] or ["openspiel"]
    signal.signal(signal.SIGALRM, out_of_time)
    games, passed = named or games_of(scheme), 0
    for game in games:
        failure = check(f"{scheme}:{game}")
        passed += not failure
        print(f"{game:32s} {printable(failure, multiline=False)[:100] or 'passed'}", flush=True)
    print(f"{passed} of {len(games)} games pass PettingZoo's parallel_api_test and seed test")
    sys.exit(passed < len(games))
