"""Optional credit schemes: by replays and by role."""
