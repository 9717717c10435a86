"""Scripted policies of every game, and the registry of their names."""

from srl_agents.scripted.basic import Uniform
from srl_agents.scripted.memory_one import Always, Bernoulli, MemoryOne, SituationReader, TitForTat

__all__ = ["Always", "Bernoulli", "MemoryOne", "SituationReader", "TitForTat", "Uniform"]
