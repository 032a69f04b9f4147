"""Files that are whole or absent, locks, the journal, the error tree."""
