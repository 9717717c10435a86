"""Sections on learning: algorithms, what TRL reads, credit, offline stages and joint updates."""
