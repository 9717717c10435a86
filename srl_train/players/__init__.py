"""Players: trained models, scripted policies, API models and opponent pools."""
