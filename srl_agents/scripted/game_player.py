"""Player of whole games with scripted policies, for servers of environments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from srl_agents.episode import to_json
from srl_agents.errors import PolicyError
from srl_agents.rollout import play
from srl_agents.scripted.registry import classic_policy, names
from srl_envs import loading
from srl_envs.errors import EnvError
from srl_envs.remote.connection import PlayedGame


class ScriptedPlayer:
    """Plays with the scripted policies that are not held out from training."""

    policies = names(holdout=False)

    def __call__(
        self, env: Any, players: Mapping[str, str], seed: int, at_turn: Callable[[int], None]
    ) -> PlayedGame:
        """One game of `env` from `seed`, each agent played by the policy that `players` names.

        `at_turn` receives the number of steps after every step. Its exceptions end the game.

        Raises EnvError for players that do not fit the environment, and for a game that fails.
        """
        if set(players) != set(env.possible_agents):
            raise EnvError(
                f"players are for {', '.join(sorted(players)) or 'nobody'}: give a policy for each "
                f"of {', '.join(env.possible_agents)}, and for nobody else"
            )
        try:
            with loading.closed():  # clients name policies, never code
                seats = {agent: classic_policy(who, env) for agent, who in players.items()}
        except PolicyError as error:
            raise EnvError(str(error)) from error
        episode = play(env, seats, seed, at_turn=at_turn)
        if episode.failure is not None:
            raise EnvError(episode.failure)
        return PlayedGame(seed, len(episode.turns), episode.returns(), to_json(episode))
