"""Test runners: how each is called, what it prints, and how it takes a canary test. Pure."""
