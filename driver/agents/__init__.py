"""Asking agents: builders, agents that only read, reviewers; and judging their answers."""
