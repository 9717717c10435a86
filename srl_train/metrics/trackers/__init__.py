"""Trackers: TensorBoard, Trackio, Weights & Biases and MLflow, by their own libraries."""
