"""Training data: samples, buffers, demonstrations, preferences."""
