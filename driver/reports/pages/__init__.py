"""The pages of a wave for people, and its documents for other programs."""
