"""Run PettingZoo's standard loop on one of our environments, with random actions."""

from srl_envs import make

env = make("coop_compete_v0", num_agents=4, max_cycles=100)
observations, infos = env.reset(seed=0)
total = 0.0
while env.agents:
    actions = {agent: env.action_space(agent).sample() for agent in env.agents}
    observations, rewards, terminations, truncations, infos = env.step(actions)
    total += sum(rewards.values())
print(f"mean reward per agent and step: {total / 400:.3f}; reference values: {env.baselines()}")
