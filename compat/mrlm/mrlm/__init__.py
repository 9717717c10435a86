"""MRLM's documented names: thin interfaces to Core SRL's environments, models and training.

docs/project/mrlm.md of Core SRL describes each name and lists the differences.
"""
