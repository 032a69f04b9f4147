"""Folds of events, and the files exported from them."""
