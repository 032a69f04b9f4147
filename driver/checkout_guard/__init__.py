"""The user's checkout: its fingerprint, and the attribution of changes to items."""
