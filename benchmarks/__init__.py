"""Benchmarks and claims of the project; each module is a command."""
