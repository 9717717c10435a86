"""Zero-sum games in words, and how far from an equilibrium a model plays them."""
