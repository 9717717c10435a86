"""Grading of mathematical answers: extraction, parsing, comparison."""
