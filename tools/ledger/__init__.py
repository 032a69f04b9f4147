"""Reads and writes the ledger of dispatches, and imports transcripts."""
