"""Commits, user hooks, the fenced push, pending publications and what was merged."""
