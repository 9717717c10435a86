"""An environment of your own: its rules, its text view, the conformance test, and a text episode.

The game is rock, paper, scissors for two agents. The rules contain no text: the view turns
observations into prompts and answers into actions.
"""

from dataclasses import dataclass
from typing import ClassVar

from srl_envs import check_environment
from srl_envs.games.base import SimultaneousGame, metadata_of, vector_of
from srl_envs.text import FixedChoices, TextEnv

SIGNS = ("rock", "paper", "scissors")  # each beats the one before it
WIN, DRAW, LOSS = 1.0, 0.0, -1.0


class RockPaperScissors(SimultaneousGame):
    """Rock, paper, scissors for two agents.

    Observation, shape (4,): 1 in the first round, the agent's last sign, the opponent's last sign,
    and the share of rounds played.
    """

    metadata: ClassVar = metadata_of("rock_paper_scissors_v0")

    def __init__(self, max_cycles=10, obs_mode="vector", render_mode=None):
        super().__init__(
            ["player_0", "player_1"],
            SIGNS,
            low=(0, 0, 0, 0),
            high=(1, 2, 2, 1),
            max_cycles=max_cycles,
            obs_mode=obs_mode,
            render_mode=render_mode,
        )

    def first_rows(self, options):
        """Return the initial observation of each agent."""
        return [(1, 0, 0, 0)] * 2

    def play_round(self, chosen, over):
        """Return the observations, rewards and infos of a round, in agent order."""
        mine, theirs = chosen
        rewards = ((DRAW, DRAW), (WIN, LOSS), (LOSS, WIN))[(mine - theirs) % 3]
        share = self.played / self.rounds
        return [(0, mine, theirs, share), (0, theirs, mine, share)], rewards, [{}, {}]

    def make_view(self):
        """Return the text view of this environment."""
        return RockPaperScissorsView(self.max_cycles)

    def baselines(self):
        """Return reference rewards per agent and step. The game is zero-sum, so both are 0."""
        return {"uniform": 0.0, "optimum": 0.0}


@dataclass(frozen=True)
class RockPaperScissorsView(FixedChoices):
    """Text view with the signs as answers; FixedChoices parses answers."""

    choices: ClassVar = SIGNS

    rounds: int
    default_action: int = 0  # played if an answer cannot be parsed
    parse_penalty: float = 0.5

    def rules(self, agent):
        """Return the rules, which are the first part of the prompt."""
        return (
            f"You are {agent}. Show rock, paper or scissors. Paper beats rock, scissors beat "
            "paper, rock beats scissors. Write your sign alone on the last line."
        )

    def describe(self, agent, observation):
        """Return the prompt text for an observation."""
        first, mine, theirs, share = vector_of(observation).tolist()
        if first:
            return f"Round 1 of {self.rounds}."
        shown = f"You showed {SIGNS[int(mine)]}, your opponent {SIGNS[int(theirs)]}."
        return f"{shown} {round(share * self.rounds)} of {self.rounds} rounds are played."


if __name__ == "__main__":
    check_environment(RockPaperScissors)  # raises ConformanceError if the API is violated

    env = TextEnv(RockPaperScissors(max_cycles=3, render_mode="ansi"))
    observations, _ = env.reset(seed=0)
    print(observations["player_0"])
    for answers in (("Paper.", "rock"), ("I cannot decide", "scissors"), ("rock", "**rock**")):
        observations, rewards, *_ = env.step(dict(zip(env.agents, answers, strict=True)))
        print(f"\n{answers} -> {rewards}\n{observations['player_0']}\n{env.render()}")
