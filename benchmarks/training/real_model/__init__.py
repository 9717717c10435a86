"""Training of a real base model, Gemma 3 with 270 million parameters, on two CPU cores."""
