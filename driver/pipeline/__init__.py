"""The item pipeline as data: what phases there are, and what follows from how they ended."""
