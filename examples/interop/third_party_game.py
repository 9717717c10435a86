"""A game of someone else, PettingZoo's rock, paper, scissors, played and learned by a model.

`with_text` says in words what the game observes in numbers. One agent always shows rock, and the
embedded model, which at first shows anything, finds out what beats it.

    pip install "core-srl[train]" pygame-ce
    python examples/interop/third_party_game.py
"""

import pettingzoo
from pettingzoo.utils import BaseParallelWrapper

from srl_envs import check_environment
from srl_envs.text import TextEnv
from srl_envs.wrappers import with_text
from srl_train.config.logging import LoggingConfig
from srl_train.config.models import ModelsConfig
from srl_train.config.run import RolloutConfig, RunConfig
from srl_train.modes import CooperativeConfig
from srl_train.trainer import Trainer

ROUNDS = 4
SIGNS = ("rock", "paper", "scissors")


class AgainstRock(BaseParallelWrapper):
    """The game for player_0 alone: player_1 shows rock, whatever happens."""

    def __init__(self, env):
        super().__init__(env)
        self.possible_agents = ["player_0"]

    def reset(self, seed=None, options=None):
        """Start a game."""
        observations, infos = self.env.reset(seed=seed, options=options)
        self.agents = ["player_0"]
        return own(observations), own(infos)

    def step(self, actions):
        """One round against rock."""
        outcome = self.env.step({**actions, "player_1": SIGNS.index("rock")})
        self.agents = [agent for agent in self.env.agents if agent == "player_0"]
        return tuple(map(own, outcome))


def own(values):
    """player_0's part of what the game gives."""
    return {"player_0": values["player_0"]}


def game():
    """player_0's game, in words."""
    return with_text(
        AgainstRock(pettingzoo.make("parallel", "classic/rps-v2", max_cycles=ROUNDS)),
        rules="Rock beats scissors, scissors beat paper, paper beats rock. You see the sign that "
        "the other player showed last.",
        answers=SIGNS,
        describe=lambda agent, seen: f"You see: {(*SIGNS, 'nothing yet')[seen]}",
    )


check_environment(game)  # it keeps every promise that our own environments make

env = TextEnv(game())
observations, _ = env.reset(seed=0)
print(observations["player_0"])
for answer in ("Paper.", "I cannot decide"):
    observations, rewards, *_ = env.step({"player_0": answer})
    print(f"\n> {answer}\n{rewards['player_0']:+g}. {observations['player_0']}")

trainer = Trainer(
    RunConfig(
        models=ModelsConfig(count=1),
        mode=CooperativeConfig(cooperation_strength=0.0),  # one agent: its own reward
        rollout=RolloutConfig(group_size=16, groups_per_round=2),
        logging=LoggingConfig(evaluation_episodes=32),
        rounds=6,
    ),
    run_dir="runs/third_party_game",
    make_env=game,
)
results = trainer.fit()
before, after = results["evaluation"]["before"], results["evaluation"]["after"]
print(f"\nagainst rock, the model earned {before['raw_reward']:+.2f} a round before")
print(f"and {after['raw_reward']:+.2f} after {trainer.run.config.rounds} rounds of training")
