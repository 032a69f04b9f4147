"""Prepares fresh folders: copies, what set-ups read, and what they install into."""
