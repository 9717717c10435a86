"""Wrappers around any PettingZoo ParallelEnv."""
