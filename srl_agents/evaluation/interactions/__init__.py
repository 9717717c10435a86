"""Interaction graphs measured from episodes: who helped, hurt, traded with, listened to whom."""

from srl_agents.evaluation.interactions.games import Observed, observe
from srl_agents.evaluation.interactions.graph import MEASURES, Edge, Graph, Measure
from srl_agents.evaluation.interactions.measures import Interactions, graphs, interactions
from srl_agents.evaluation.interactions.silence import heeded

__all__ = [
    "MEASURES",
    "Edge",
    "Graph",
    "Interactions",
    "Measure",
    "Observed",
    "graphs",
    "heeded",
    "interactions",
    "observe",
]
