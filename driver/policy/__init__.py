"""The rules for accepting changes and green tests. Pure."""
