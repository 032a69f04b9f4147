"""Events, leases, items and spend in one SQLite file."""
