"""Your own environment: its rules, how it reads, the contract test, and a game in words.

Rock, paper, scissors for two. The rules know no text; the view beside them does.
"""

from dataclasses import dataclass
from typing import ClassVar

from srl_envs import check_environment
from srl_envs.games.base import SimultaneousGame, metadata_of, vector_of
from srl_envs.text import FixedChoices, TextEnv

SIGNS = ("rock", "paper", "scissors")  # each beats the one before it
WIN, DRAW, LOSS = 1.0, 0.0, -1.0


class RockPaperScissors(SimultaneousGame):
    """Observation: first round, own last sign, the other's last sign, share of rounds played."""

    metadata: ClassVar = metadata_of("rock_paper_scissors_v0")

    def __init__(self, max_cycles=10, obs_mode="vector", render_mode=None):
        super().__init__(
            ["player_0", "player_1"],
            SIGNS,
            low=(0, 0, 0, 0),
            high=(1, 2, 2, 1),
            reward_ceiling=WIN,
            max_cycles=max_cycles,
            obs_mode=obs_mode,
            render_mode=render_mode,
        )

    def first_rows(self, options):
        """Nobody has shown anything yet."""
        return [(1, 0, 0, 0)] * 2

    def play_round(self, chosen, over):
        """Observations, rewards and infos in agent order."""
        mine, theirs = chosen
        rewards = ((DRAW, DRAW), (WIN, LOSS), (LOSS, WIN))[(mine - theirs) % 3]
        share = self.played / self.rounds
        return [(0, mine, theirs, share), (0, theirs, mine, share)], rewards, [{}, {}]

    def make_view(self):
        """The view for this number of rounds."""
        return RockPaperScissorsView(self.max_cycles)

    def baselines(self):
        """Nobody can do better than even as both agents together."""
        return {"uniform": 0.0, "optimum": 0.0}


@dataclass(frozen=True)
class RockPaperScissorsView(FixedChoices):
    """How a situation reads; FixedChoices reads the answers."""

    choices: ClassVar = SIGNS

    rounds: int
    default_action: int = 0  # played where an answer cannot be read
    parse_penalty: float = 0.5

    def rules(self, agent):
        """Said once, before the first round."""
        return (
            f"You are {agent}. Show rock, paper or scissors. Paper beats rock, scissors beat "
            "paper, rock beats scissors. Write your sign alone on the last line."
        )

    def describe(self, agent, observation):
        """The situation, from the agent's own observation."""
        first, mine, theirs, share = vector_of(observation).tolist()
        if first:
            return f"Round 1 of {self.rounds}."
        shown = f"You showed {SIGNS[int(mine)]}, the other {SIGNS[int(theirs)]}."
        return f"{shown} {round(share * self.rounds)} of {self.rounds} rounds are played."


if __name__ == "__main__":
    check_environment(RockPaperScissors)  # raises ConformanceError where a promise is broken

    env = TextEnv(RockPaperScissors(max_cycles=3, render_mode="ansi"))
    observations, _ = env.reset(seed=0)
    print(observations["player_0"])
    for answers in (("Paper.", "rock"), ("I cannot decide", "scissors"), ("rock", "**rock**")):
        observations, rewards, *_ = env.step(dict(zip(env.agents, answers, strict=True)))
        print(f"\n{answers} -> {rewards}\n{observations['player_0']}\n{env.render()}")
