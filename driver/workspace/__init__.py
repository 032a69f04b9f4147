"""Clones for agents, test checkouts, work in place, saved patches."""
