"""Agent programs: start one, read its events, sort its failures."""
