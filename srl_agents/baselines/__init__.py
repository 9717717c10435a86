"""Learning and opponent-modelling baselines without a language model."""

from srl_agents.baselines.learners import SimplePG
from srl_agents.baselines.our_method import OurMethodPolicy

__all__ = ["OurMethodPolicy", "SimplePG"]
