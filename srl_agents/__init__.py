"""Who plays: policies, rollouts, episode records."""
