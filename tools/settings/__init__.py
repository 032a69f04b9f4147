"""The settings: their fields, sources and checks."""
