"""Score a policy of your own in scenarios: what does it earn in company that it never met?

    python examples/evaluate_scenarios.py

The policy repeats what earned more than the mean so far. The scenarios are those of the two-player
benchmark game; in those marked * the partner is held out, so that no training could have met it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from srl_agents.episode import Decision
from srl_agents.evaluation.scenarios import score
from srl_agents.policy import AgentObservation
from srl_agents.scripted.registry import classic_policy
from srl_envs.scenarios import lookup

GAME, EPISODES = "coop_compete_pair_v0", 48


class Memory(NamedTuple):
    """What a seat knows: the mean of its rewards, and how many they were."""

    mean: float = 0.0
    rounds: int = 0


class Content:
    """Stays with what earned as much as usual, else does the other thing."""

    name = "content"

    def start(self, seed: int) -> Memory:
        """Nothing earned yet."""
        return Memory()

    def act(
        self, seen: Sequence[AgentObservation], states: Sequence[Memory]
    ) -> tuple[list[Decision], list[Memory]]:
        """One decision and one new memory per seat."""
        answered = [self._one(view, memory) for view, memory in zip(seen, states, strict=True)]
        return [decision for decision, _ in answered], [memory for _, memory in answered]

    def _one(self, view: AgentObservation, memory: Memory) -> tuple[Decision, Memory]:
        # srl_envs.games.coop_compete.env.OBSERVATION_FIELDS says what stands where.
        first, own, _, reward, *_ = view.observation.tolist()
        if first:
            return Decision(1), memory
        stays = reward >= memory.mean
        rounds = memory.rounds + 1
        mean = memory.mean + (reward - memory.mean) / rounds
        return Decision(int(own) if stays else 1 - int(own)), Memory(mean, rounds)


for name in lookup.names(GAME):
    scenario = lookup.scenario(name)
    print(f"{name}{' *' if scenario.holdout else ''}: {scenario.description}")
    for policy in (Content(), classic_policy("pavlov", scenario.make())):
        result = score(scenario, policy, EPISODES, seed=0)
        low, high = result.focal_interval or (float("nan"),) * 2
        print(
            f"  {policy.name}: {result.focal_return:.2f} ({low:.2f} to {high:.2f}), "
            f"its partner {result.background_return:.2f}"
        )
