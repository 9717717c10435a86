"""Environments answered in free text: questions, programs, tools, debates."""
