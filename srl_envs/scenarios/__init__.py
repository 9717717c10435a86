"""Scenarios: evaluated agents, background agents and holdouts."""

from srl_envs.scenarios.lookup import environments, names
from srl_envs.scenarios.scenario import Scenario

__all__ = ["Scenario", "environments", "names"]
