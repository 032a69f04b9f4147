"""Backends, the wave engine and its two command lines."""

__version__ = "0.1.0"  # as in pyproject.toml
