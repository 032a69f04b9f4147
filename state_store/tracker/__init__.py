"""Reads the tracker file, and merges it with the store."""
