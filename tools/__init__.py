"""Programs for the operator, and the settings, budget and ledger."""
