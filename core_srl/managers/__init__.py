"""Managers of single language models: their settings, conversations and shared weights."""
