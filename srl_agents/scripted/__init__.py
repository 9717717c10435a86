"""Scripted policies of every game, and the registry of their names."""

from srl_agents.scripted.always import Always
from srl_agents.scripted.bernoulli import Bernoulli
from srl_agents.scripted.memory_one import MemoryOne, SituationReader
from srl_agents.scripted.tit_for_tat import TitForTat
from srl_agents.scripted.uniform import Uniform

__all__ = [
    "Always",
    "Bernoulli",
    "MemoryOne",
    "SituationReader",
    "TitForTat",
    "Uniform",
]
