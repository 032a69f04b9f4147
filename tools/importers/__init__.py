"""Imports items from GitHub, Markdown and CSV."""
