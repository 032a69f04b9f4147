"""Starts all other programs and all threads."""
