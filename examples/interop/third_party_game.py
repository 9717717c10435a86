"""Train a model on a third-party environment: PettingZoo's rock, paper, scissors.

`with_text` adds a text view to the environment. One agent always shows rock. The embedded model
starts with random signs and learns to show paper.

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
    """Environment with the single agent player_0; player_1 always shows rock."""

    def __init__(self, env):
        super().__init__(env)
        self.possible_agents = ["player_0"]

    def reset(self, seed=None, options=None):
        """Start an episode."""
        observations, infos = self.env.reset(seed=seed, options=options)
        self.agents = ["player_0"]
        return of_player_0(observations), of_player_0(infos)

    def step(self, actions):
        """Play one round against rock."""
        outcome = self.env.step({**actions, "player_1": SIGNS.index("rock")})
        self.agents = [agent for agent in self.env.agents if agent == "player_0"]
        return tuple(map(of_player_0, outcome))


def of_player_0(values):
    """Return a mapping with the value of player_0 only."""
    return {"player_0": values["player_0"]}


def make_env():
    """Return the environment of player_0 with a text view."""
    return with_text(
        AgainstRock(pettingzoo.make("parallel", "classic/rps-v2", max_cycles=ROUNDS)),
        rules="Rock beats scissors, scissors beat paper, paper beats rock. You see the sign that "
        "the other player showed last.",
        answers=SIGNS,
        describe=lambda agent, sign: f"You see: {(*SIGNS, 'nothing yet')[sign]}",
    )


check_environment(make_env)  # the conformance test of our own environments

env = TextEnv(make_env())
observations, _ = env.reset(seed=0)
print(observations["player_0"])
for answer in ("Paper.", "I cannot decide"):
    observations, rewards, *_ = env.step({"player_0": answer})
    print(f"\n> {answer}\n{rewards['player_0']:+g}. {observations['player_0']}")

trainer = Trainer(
    RunConfig(
        models=ModelsConfig(count=1),
        mode=CooperativeConfig(cooperation_strength=0.0),  # one agent: no reward is shared
        rollout=RolloutConfig(group_size=16, groups_per_round=2),
        logging=LoggingConfig(evaluation_episodes=32),
        rounds=6,
    ),
    run_dir="runs/third_party_game",
    make_env=make_env,
)
results = trainer.fit()
before, after = results["evaluation"]["before"], results["evaluation"]["after"]
print(f"\nreward per round against rock: {before['raw_reward']:+.2f} before training")
print(f"and {after['raw_reward']:+.2f} after {trainer.run.config.rounds} rounds of training")
