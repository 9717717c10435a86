"""Settings of a run in the documented names, and the division of its games into rounds."""
