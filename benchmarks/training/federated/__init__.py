"""Models that meet now and then: what rare means cost, and how exact means of adapters are."""
