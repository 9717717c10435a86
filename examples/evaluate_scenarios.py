"""Score a policy of your own in scenarios: what does it earn in company that it never met?

    python examples/evaluate_scenarios.py

The policy repeats what earned more than the mean so far. The scenarios are those of the two-player
benchmark game; in those marked * the partner is held out, so that no training could have met it.
"""

from dataclasses import dataclass

from srl_agents.episode import Decision
from srl_agents.policy import AgentObservation, PerAgentPolicy
from srl_agents.scripted.registry import classic_policy
from srl_envs import scenarios
from srl_extensions.judging.scenarios import score

GAME, EPISODES = "coop_compete_pair_v0", 48


@dataclass
class Memory:
    """What an agent knows: the mean of its rewards, and how many they were."""

    mean: float = 0.0
    rounds: int = 0


class Content(PerAgentPolicy):
    """Stays with what earned as much as usual, else does the other thing."""

    name = "content"

    def start(self, seed: int) -> Memory:
        """Nothing earned yet."""
        return Memory()

    def decide(self, seen: AgentObservation, state: Memory) -> Decision:
        """One agent's decision."""
        # srl_envs.games.coop_compete.OBSERVATION_FIELDS lists the fields.
        first, own, _, reward, *_ = seen.observation.tolist()
        if first:
            return Decision(1)
        stays = reward >= state.mean
        state.rounds += 1
        state.mean += (reward - state.mean) / state.rounds
        return Decision(int(own) if stays else 1 - int(own))


for name in scenarios.names(GAME):
    scenario = scenarios.scenario(name)
    print(f"{name}{' *' if scenario.holdout else ''}: {scenario.description}")
    for policy in (Content(), classic_policy("pavlov", scenario.make())):
        result = score(scenario, policy, EPISODES, seed=0)
        low, high = result.focal_interval or (float("nan"),) * 2
        print(
            f"  {policy.name}: {result.focal_return:.2f} ({low:.2f} to {high:.2f}), "
            f"its partner {result.background_return:.2f}"
        )
