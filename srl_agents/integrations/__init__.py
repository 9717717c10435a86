"""Rollouts for other frameworks: their models play agents of our games, in their own engines.

`verl` has the agent loop and `areal` the workflow; each is imported only where its framework is
installed. `game_rows` makes the data that both train on.
"""
