"""Finds secrets by rules and by known values."""
