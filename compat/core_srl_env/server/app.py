"""OpenEnv server of Core SRL's environments: the ASGI application and its command."""

from __future__ import annotations

import argparse
import os
import sys

from srl_extensions.remote.openenv_server import ServedGame, create_app, serve

VARIABLE = "CORE_SRL_GAMES"
GAMES = (
    "math_v0,coop_compete_pair_v0,team_battle_v0,maze_race_v0,social_trading_v0,"
    "social_negotiation_v0,debate_v0"
)
"""Default value of the variable CORE_SRL_GAMES; sessions start with the first environment."""

app = create_app(
    {name.strip(): ServedGame(name.strip()) for name in os.environ.get(VARIABLE, GAMES).split(",")}
)


def main() -> None:
    """Serve on the loopback address, at port --port, until interrupted."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--port", type=int, default=8000)
    port = parser.parse_args().port
    sys.stdout.write(f"serving at http://127.0.0.1:{port}; Ctrl-C ends it\n")
    serve(app, port=port)


if __name__ == "__main__":
    main()
