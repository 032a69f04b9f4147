"""The ledger of dispatches: its rows, its writer, transcripts."""
