"""Mazes: levels, generator, environment, view, rendering and the array form."""
