"""Which changes may count, and what a green is worth. Pure."""
