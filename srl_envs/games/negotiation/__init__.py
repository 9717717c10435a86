"""Bargaining over several issues: rules, environment, view and rendering."""
