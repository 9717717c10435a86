"""Optional parts of Core SRL, one folder each. The core imports none of them."""
