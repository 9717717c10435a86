"""One agent of a game in this process, as TRL's `environment_factory` wants it.

game = FocalGame("coop_compete_v0", "agent_0", {"agent_1": "tit_for_tat"}, {"num_agents": 2})
trainer = GRPOTrainer(..., environment_factory=partial(GameAgent, game))
"""

from __future__ import annotations

from srl_agents.integrations.focal_game import FocalGame
from srl_agents.rollout.partners import WithPartners
from srl_envs.text import FocalAgent, TextEnv


class GameAgent(FocalAgent):
    """The agent of `game` that learns; its partners play along.

    Its reward is that of our own training: what the agent was paid, less the text view's penalty
    for each answer that could not be read. TRL decides how long an answer may be
    (`max_new_tokens` of its generation_kwargs). Raises EnvError where partners leave several
    agents, and as FocalGame does for a game that cannot be made; `trusted` as there.
    """

    def __init__(self, game: FocalGame, *, trusted: bool = False) -> None:
        env = game.make(trusted=trusted)
        super().__init__(TextEnv(WithPartners(env, game.partner_policies(env, trusted=trusted))))
