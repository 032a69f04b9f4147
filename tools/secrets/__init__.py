"""Secret rules, the search for secrets, known values."""
