"""Text views: observations as prompts, answers as actions."""
