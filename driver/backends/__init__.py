"""The adapters of all backends, and their registry."""
