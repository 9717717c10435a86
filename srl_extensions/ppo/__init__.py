"""PPO: advantages from a critic, with three kinds of critics."""
