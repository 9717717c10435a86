"""Learning from data before the rounds: SFT and DPO."""
