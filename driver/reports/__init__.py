"""The reports of waves for people and for other programs."""
