"""Algorithms: PPO, GRPO, DPO and SFT, with one trainer class each."""
