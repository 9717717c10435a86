"""Scenarios: evaluated agents, background agents and holdouts."""
