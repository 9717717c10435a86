"""Federated averaging: the cost of averaging every few rounds."""
