"""Compare your own policy and the best scripted one with the best constant action in scenarios.

    python examples/evaluate_scenarios.py bandit_v0 team_battle_v0 --policy mybot:Sticky

All policies play the same starts with the same draws of partners. The first half of the episodes
selects the best ones, the second half measures them. A scenario rewards adaptation if the interval
of the difference is above 0. In scenarios marked with *, training excludes a partner or the levels.
"""

import argparse
from dataclasses import dataclass

import numpy as np

from srl_agents.episode import Decision
from srl_agents.evaluation.bootstrap import bootstrap_interval
from srl_agents.policy import AgentObservation, PerAgentPolicy
from srl_agents.scripted.registry import classic_policy, names
from srl_envs import scenarios
from srl_extensions.judging.scenarios import score

CONSTANT = ("always_cooperate", "always_compete")


@dataclass(frozen=True)
class Always(PerAgentPolicy):
    """Policy that always chooses the same action, by its number."""

    action: int

    def decide(self, seen: AgentObservation, state: object) -> Decision:
        """Return the decision of one agent."""
        return Decision(self.action)


def compared(name: str, own: str | None, episodes: int) -> list[str]:
    """Return the row of a scenario: its name, then policies with their mean returns."""
    scenario = scenarios.scenario(name)
    env = scenario.make()
    actions = range(int(env.action_space(scenario.focal[0]).n))
    constants = {f"action {action}": Always(action) for action in actions}
    scripted = [name for name in names(env) if name not in CONSTANT]
    groups = [*([[own]] if own else []), scripted, constants]
    policies = constants | {name: classic_policy(name, env) for name in {*groups[0], *scripted}}
    returns = {
        name: np.array([one.focal_return for one in score(scenario, policy, episodes).episodes])
        for name, policy in policies.items()
    }
    half = episodes // 2
    chosen = [max(group, key=lambda name: returns[name][:half].mean()) for group in groups]
    gains = (returns[chosen[0]] - returns[chosen[-1]])[half:]
    low, high = bootstrap_interval(gains.tolist(), seed=0) or (float("nan"),) * 2
    return [
        scenario.name + " *" * scenario.holdout,
        *(f"{name} {returns[name][half:].mean():.2f}" for name in (*chosen, "uniform")),
        f"{gains.mean():+.2f} ({low:+.2f} to {high:+.2f})",
    ]


parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
parser.add_argument("environments", nargs="*", default=["coop_compete_pair_v0"])
parser.add_argument("--policy", help="a scripted policy, or MODULE:CLASS")
parser.add_argument("--episodes", type=int, default=128)
given = parser.parse_args()
policy = "policy | " * (given.policy is not None)
print(f"scenario | {policy}best scripted | best constant | uniform | first - constant")
for environment in given.environments:
    for name in scenarios.names(environment):
        print(" | ".join(compared(name, given.policy, given.episodes)))
