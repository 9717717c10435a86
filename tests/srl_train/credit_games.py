"""Games as credit sees them."""

from srl_agents.episode import AgentStep, Decision
from srl_train.trajectory import Trajectory


def game(rewards, actions=None, environment=""):
    """Agent -> its rewards, and of each the same as gains by replay; everyone chose 0 throughout
    where no actions are given."""
    actions = actions or {agent: [0] * len(own) for agent, own in rewards.items()}
    return {
        agent: Trajectory(
            agent,
            tuple(AgentStep(agent, None, Decision(action), 0.0) for action in actions[agent]),
            tuple(own),
            gains=tuple(map(float, own)),
            environment=environment,
        )
        for agent, own in rewards.items()
    }


def alone(*rewards, environment=""):
    """A group in which one agent, 'a', earns these rewards in each game."""
    return [game({"a": list(own)}, environment=environment) for own in rewards]
