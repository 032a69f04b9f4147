"""Atomic files, strict JSON, locks, the journal and the error classes."""
