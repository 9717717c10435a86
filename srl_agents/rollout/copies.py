"""Copies of environments in the middle of a game."""

from __future__ import annotations

import copy
from typing import Any

from srl_envs.errors import EnvError
from srl_envs.games.base import RoundGame

FIXED = ("action_spaces", "observation_spaces", "state_space", "text_view", "rules")


def copied(env: Any) -> Any:
    """The environment as it stands, its generator of chance included, apart from `env`.

    Raises EnvError for one that cannot be copied, such as a remote one.
    """
    # What says how a game is played, not where it stands, is shared by the copies: half the time.
    game = env.unwrapped
    fixed = [getattr(game, name, None) for name in FIXED] if isinstance(game, RoundGame) else []
    try:
        return copy.deepcopy(env, {id(one): one for one in fixed})
    except (TypeError, copy.Error) as error:  # what holds connections or locks
        raise EnvError(f"{env.metadata['name']} cannot be copied: {error}") from error
