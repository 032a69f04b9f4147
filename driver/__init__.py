"""Backends, the wave engine and its two command lines."""
