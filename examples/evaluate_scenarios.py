"""Score a policy of your own in scenarios, with partners that training does not include.

    python examples/evaluate_scenarios.py

The policy repeats an action whose reward was at least the mean so far. The scenarios belong to the
two-player benchmark game. In scenarios marked with *, training excludes the partner.
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
    """Mean and number of an agent's rewards."""

    mean: float = 0.0
    rounds: int = 0


class Content(PerAgentPolicy):
    """Policy that repeats its action if the last reward was at least the mean, else switches."""

    name = "content"

    def start(self, seed: int) -> Memory:
        """Return the initial memory of an agent."""
        return Memory()

    def decide(self, seen: AgentObservation, state: Memory) -> Decision:
        """Return the decision of one agent."""
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
