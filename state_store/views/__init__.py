"""Views of the events, the files exported from them, and repairs of the store."""
