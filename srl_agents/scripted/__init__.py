"""Classic policies: scripted players and small learners, for any game with the actions 0 and 1."""

from srl_agents.baselines.agents import OurMethodSeat, SimplePGSeat
from srl_agents.baselines.our_method import OurMethodPolicy
from srl_agents.baselines.simple_pg import SimplePG
from srl_agents.scripted.always import Always
from srl_agents.scripted.bernoulli import Bernoulli
from srl_agents.scripted.memory_one import MemoryOne, SituationReader
from srl_agents.scripted.tit_for_tat import TitForTat
from srl_agents.scripted.uniform import Uniform

__all__ = [
    "Always",
    "Bernoulli",
    "MemoryOne",
    "OurMethodPolicy",
    "OurMethodSeat",
    "SimplePG",
    "SimplePGSeat",
    "SituationReader",
    "TitForTat",
    "Uniform",
]
