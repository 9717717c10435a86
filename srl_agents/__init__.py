"""Agents: policies, rollouts, episode records and evaluation."""
