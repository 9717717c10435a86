"""Learning from recorded data before the rounds: SFT, DPO and the collection of episodes."""
