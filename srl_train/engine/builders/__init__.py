"""Builders of a run's parts from its configuration."""
