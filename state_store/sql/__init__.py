"""Statements and transactions, as the tables ask a database for them."""
