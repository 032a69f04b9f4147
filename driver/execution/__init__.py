"""The only door to other programs and to threads."""
