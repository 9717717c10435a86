"""Bridges to other trainers and environment libraries."""
