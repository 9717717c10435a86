"""Text that reaches the environment with an action."""

from srl_agents.episode import Decision, from_json, to_json
from srl_agents.rollout import play
from srl_envs import registry
from srl_envs.wrappers import CustomRewards


class Says:
    """Policy that passes, always with the same text or without text."""

    def __init__(self, text):
        self.text = text

    def start(self, seed):
        return None

    def act(self, seen, states):
        return [Decision(action=0, text=self.text) for _ in seen], list(states)


def test_agents_observe_the_text_of_others():
    env = registry.make("social_negotiation_v0", messages=True, obs_mode="llm", max_cycles=2)
    seats = {"agent_0": Says("Let us agree soon.\npass"), "agent_1": Says(None)}
    episode = play(env, seats, seed=0)
    silent, hearing = (episode.steps_of(agent)[1].observation for agent in seats)
    assert hearing["messages"] == 'agent_0 says: "Let us agree soon."'
    assert silent["messages"] == ""
    assert to_json(from_json(to_json(episode))) == to_json(episode)


def test_custom_rewards_receive_the_text():
    told = []
    env = CustomRewards(
        registry.make("coop_compete_pair_v0", max_cycles=1),
        lambda output, context: told.append(output) or 0.0,
    )
    play(env, {"agent_0": Says("compete"), "agent_1": Says(None)}, seed=0)
    assert told == ["compete", 0]
