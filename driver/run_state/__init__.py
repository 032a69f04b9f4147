"""The context that a wave shares, and what it writes down: events, journal, leases."""
