"""Debates: environment, topics, judges."""
