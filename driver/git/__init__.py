"""Git commands, the private git dir, remotes and the push."""
