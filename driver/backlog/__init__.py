"""The tracker's items, and which of them are next."""
