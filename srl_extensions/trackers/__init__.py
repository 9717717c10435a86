"""Trackers of experiments: TensorBoard, Trackio, Weights & Biases and MLflow."""
