"""The tracker's items, and the selection of the next ones."""
