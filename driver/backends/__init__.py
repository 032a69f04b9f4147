"""The adapters of all backends, one file each, and their registry."""
