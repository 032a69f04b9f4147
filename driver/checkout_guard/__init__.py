"""The user's checkout: its fingerprint, and who changed it."""
