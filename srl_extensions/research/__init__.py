"""Optional credit schemes: by replays, by role, and with advantage alignment."""
