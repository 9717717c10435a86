"""Monitors of training, and drawings of what they recorded."""
