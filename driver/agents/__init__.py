"""Requests to agents (builders, readers, reviewers), and the judgement of their answers."""
