"""The rules for changes that may count, and for accepting a green test. Pure."""
