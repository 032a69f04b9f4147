"""Copies a whole store into another database, of the same kind or of the other."""
