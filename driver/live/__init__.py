"""A wave under way, shown to people on stderr: a live screen, or plain lines with a heartbeat."""
