"""Multi-agent games of simultaneous discrete choices, one package each."""
