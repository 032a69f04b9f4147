"""The batch of verified items, tested together, and the search for culprits."""
