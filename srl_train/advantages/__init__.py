"""Rewards to advantages: reward modes, returns, GAE, credit assignment."""
