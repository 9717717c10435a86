"""Backends: where completions come from, in this process or behind an API."""
