"""Git commands, our private git dir, remotes and pushes."""
