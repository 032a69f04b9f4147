"""The item pipeline as data: its phases, and the next step after their results."""
