"""The tracker file: read, merge, ingest."""
