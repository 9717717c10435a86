"""Documented names of caches and of other frameworks: verl and AReaL."""
