"""Learning and opponent-modelling baselines without a language model."""

from srl_agents.baselines.agents import OurMethodAgent, SimplePGAgent
from srl_agents.baselines.our_method import OurMethodPolicy
from srl_agents.baselines.simple_pg import SimplePG

__all__ = ["OurMethodAgent", "OurMethodPolicy", "SimplePG", "SimplePGAgent"]
