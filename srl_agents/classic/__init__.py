"""Classic policies: scripted players and small learners, for any game with the actions 0 and 1."""

from srl_agents.classic.always import Always
from srl_agents.classic.bernoulli import Bernoulli
from srl_agents.classic.learner_seats import OurMethodSeat, SimplePGSeat
from srl_agents.classic.memory_one import MemoryOne, SituationReader
from srl_agents.classic.our_method import OurMethodPolicy
from srl_agents.classic.simple_pg import SimplePG
from srl_agents.classic.tit_for_tat import TitForTat
from srl_agents.classic.uniform import Uniform

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
